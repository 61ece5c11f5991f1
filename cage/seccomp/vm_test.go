package seccomp_test

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
	"pi-mcp/cage/seccomp"
)

// A request is a system call as a filter sees it: struct seccomp_data.
type request struct {
	arch   uint32
	number uint32
	args   [6]uint64
}

func (r request) data() []byte {
	b := binary.LittleEndian.AppendUint32(nil, r.number)
	b = binary.LittleEndian.AppendUint32(b, r.arch)
	b = binary.LittleEndian.AppendUint64(b, 0x7f00dead0000) // the instruction pointer
	for _, a := range r.args {
		b = binary.LittleEndian.AppendUint64(b, a)
	}
	return b
}

// What a filter may say.
const (
	allow  = verdict(unix.SECCOMP_RET_ALLOW)
	kill   = verdict(unix.SECCOMP_RET_KILL_PROCESS)
	eperm  = verdict(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	enosys = verdict(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS))
)

type verdict uint32

func (v verdict) String() string {
	switch v {
	case allow:
		return "allow"
	case kill:
		return "kill"
	case eperm:
		return "EPERM"
	case enosys:
		return "ENOSYS"
	}
	return fmt.Sprintf("%#x", uint32(v))
}

// run interprets the program as the kernel does. It fails on anything that the kernel
// would not load, and on a program that runs off its end.
func run(program []seccomp.Instruction, r request) (verdict, error) {
	data := r.data()
	var a uint32
	for pc := 0; pc < len(program); pc++ {
		i := program[pc]
		var holds bool
		switch i.Code {
		case 0x20: // load a word
			if i.K%4 != 0 || int(i.K) >= len(data) {
				return 0, fmt.Errorf("%d: load from %d", pc, i.K)
			}
			a = binary.LittleEndian.Uint32(data[i.K:])
			continue
		case 0x54: // and
			a &= i.K
			continue
		case 0x06: // return
			return verdict(i.K), nil
		case 0x15:
			holds = a == i.K
		case 0x35:
			holds = a >= i.K
		case 0x45:
			holds = a&i.K != 0
		default:
			return 0, fmt.Errorf("%d: code %#x", pc, i.Code)
		}
		if holds {
			pc += int(i.JT)
		} else {
			pc += int(i.JF)
		}
	}
	return 0, fmt.Errorf("no return")
}
