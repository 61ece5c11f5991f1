package seccomp_test

import (
	"bytes"
	"io"
	"testing"

	"golang.org/x/sys/unix"
	"pi-mcp/cage/seccomp"
)

// TestShape walks every path there is: none leaves the program, each ends in one of the
// four answers, and no instruction lies on no path.
func TestShape(t *testing.T) {
	every(t, func(t *testing.T, o seccomp.Options) {
		program := filter(t, o)
		t.Logf("%d instructions", len(program))
		reached := make([]bool, len(program))
		reached[0] = true
		for pc, i := range program { // jumps only go forward, so that one pass is enough
			if !reached[pc] {
				t.Errorf("%d: nothing leads here", pc)
			}
			if i.Code == unix.BPF_RET {
				switch verdict(i.K) {
				case allow, kill, eperm, enosys:
				default:
					t.Errorf("%d: answers %v", pc, verdict(i.K))
				}
				continue
			}
			for _, next := range []int{pc + 1 + int(i.JT), pc + 1 + int(i.JF)} {
				if next >= len(program) {
					t.Fatalf("%d: goes to %d of %d", pc, next, len(program))
				}
				reached[next] = true
			}
		}
		if len(program) > unix.BPF_MAXINSNS {
			t.Errorf("%d instructions", len(program))
		}
	})
}

// FuzzFilter asks for calls of any kind. Every program answers, and neither the upper
// half of an argument nor less strict options ever make an answer stricter.
func FuzzFilter(f *testing.F) {
	var programs [2][4][]seccomp.Instruction
	arches := [2]string{"amd64", "arm64"}
	for a, arch := range arches {
		for i := range 4 {
			programs[a][i] = filter(f, seccomp.Options{Arch: arch, Unix: i&1 != 0, Debug: i&2 != 0})
		}
	}
	for _, arch := range arches {
		known := numbers(f, arch)
		for _, r := range append(byArgument(), byMode()...) {
			if number, ok := known[r.name]; ok {
				f.Add(audit[arch], number, r.args[0], r.args[1], r.args[2], r.args[3])
			}
		}
	}
	f.Fuzz(func(t *testing.T, arch, number uint32, a, b, c, d uint64) {
		whole := request{arch, number, args(a, b, c, d)}
		lower := request{arch, number, args(uint64(uint32(a)), uint64(uint32(b)), uint64(uint32(c)), uint64(uint32(d)))}
		for _, of := range programs {
			strict := judge(t, of[0], whole)
			for _, program := range of {
				got := judge(t, program, whole)
				if got != judge(t, program, lower) {
					t.Errorf("%+v: the upper halves matter", whole)
				}
				if got != strict && got != allow {
					t.Errorf("%+v: %v, strictly %v", whole, got, strict)
				}
			}
		}
	})
}

func TestEncode(t *testing.T) {
	got := seccomp.Encode([]seccomp.Instruction{{Code: 0x15, JT: 1, JF: 2, K: 0xc000003e}, {Code: 0x06, K: 0x7fff0000}})
	want := []byte{0x15, 0, 1, 2, 0x3e, 0, 0, 0xc0, 0x06, 0, 0, 0, 0, 0, 0xff, 0x7f}
	if !bytes.Equal(got, want) {
		t.Errorf("% x, want % x", got, want)
	}
}

// TestFile: the file is read from its start, in another process only if it is handed
// on, and holds what Filter returns.
func TestFile(t *testing.T) {
	o := seccomp.Options{Debug: true}
	f, err := seccomp.File(o)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}
	got, err := io.ReadAll(f)
	if err != nil || !bytes.Equal(got, seccomp.Encode(filter(t, o))) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func BenchmarkFilter(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		filter(b, seccomp.Options{})
	}
}
