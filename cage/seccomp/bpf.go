package seccomp

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

// An Instruction is the kernel's struct sock_filter. A jump goes JT instructions
// forward when its test holds and JF when not, counted from the next one.
type Instruction struct {
	Code   uint16
	JT, JF uint8
	K      uint32
}

// Encode returns the program as the array of struct sock_filter that bubblewrap and
// the kernel take, little-endian as both architectures are.
func Encode(program []Instruction) []byte {
	b := make([]byte, 0, 8*len(program))
	for _, i := range program {
		b = binary.LittleEndian.AppendUint16(b, i.Code)
		b = append(b, i.JT, i.JF)
		b = binary.LittleEndian.AppendUint32(b, i.K)
	}
	return b
}

// The instructions that are used here, out of those that seccomp_check_filter in the
// kernel's kernel/seccomp.c accepts.
const (
	loadWord    = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	mask        = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	jumpEqual   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	jumpAtLeast = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	jumpBits    = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	giveBack    = unix.BPF_RET | unix.BPF_K
)

// Offsets in struct seccomp_data, which is what a filter sees of a call. It sees no
// memory: whatever a call is told by pointer cannot be judged.
const (
	numberOffset = 0
	archOffset   = 4
	argsOffset   = 16
)

// A step is an instruction whose jumps may still be too far for one. There are no
// labels: blocks are put together from the inside out, each ends in a return, and what
// a jump leaves out is the rest of its own block.
type step struct {
	code    uint16
	k       uint32
	yes, no int // how many steps to leave out
}

func load(offset int) step { return step{code: loadWord, k: uint32(offset)} }

// loadArg loads the lower half of an argument. Of all that is compared here the kernel
// uses 32 bits or fewer, so an upper half must not make a difference: a test of all 64
// let 1<<32|TIOCSTI pass (CVE-2019-10063).
func loadArg(n int) step { return load(argsOffset + 8*n) }

func jump(test uint16, k uint32, yes, no int) step { return step{test, k, yes, no} }

func ret(action uint32) step { return step{code: giveBack, k: action} }

func fail(e unix.Errno) step { return ret(unix.SECCOMP_RET_ERRNO | uint32(e)) }

// when does body if the loaded value is one of values, and leaves it loaded for what
// follows if not. Every path through body must return.
func when(values []uint32, body []step) (block []step) {
	for i, v := range values {
		rest := len(values) - i - 1
		otherwise := 0
		if rest == 0 {
			otherwise = len(body)
		}
		block = append(block, jump(jumpEqual, v, rest, otherwise))
	}
	if block == nil {
		return nil // nothing leads to body
	}
	return append(block, body...)
}

// maxJump is what fits the eight bits of a jump. Longer blocks must be split.
const maxJump = 255

// assemble refuses what the kernel would, or would take for another program.
func assemble(steps []step) ([]Instruction, error) {
	if len(steps) > unix.BPF_MAXINSNS {
		return nil, fmt.Errorf("cannot assemble the filter: it has %d instructions of %d", len(steps), unix.BPF_MAXINSNS)
	}
	program := make([]Instruction, len(steps))
	for i, s := range steps {
		far := max(s.yes, s.no)
		if far > maxJump || i+1+far >= len(steps) && s.code != giveBack {
			return nil, fmt.Errorf("cannot assemble the filter: the jump at %d goes %d too far", i, far)
		}
		program[i] = Instruction{s.code, uint8(s.yes), uint8(s.no), s.k}
	}
	return program, nil
}
