package seccomp_test

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pi-mcp/cage/seccomp"
)

// expect is the row's answer under o.
func (r row) expect(o seccomp.Options) verdict {
	switch {
	case o.Unix && r.unix != 0:
		return r.unix
	case o.Debug && r.debug != 0:
		return r.debug
	}
	return r.want
}

func TestTable(t *testing.T) {
	rows := slices.Concat(byNumber(), byArgument(), byMode())
	every(t, func(t *testing.T, o seccomp.Options) {
		program, known := filter(t, o), numbers(t, o.Arch)
		for _, r := range rows {
			number, ok := known[r.name]
			if !ok {
				continue // TestNames has those
			}
			if got := judge(t, program, request{audit[o.Arch], number, r.args}); got != r.expect(o) {
				t.Errorf("%s%#x: %v, want %v", r.name, r.args, got, r.expect(o))
			}
		}
	})
}

// TestNames holds every name of the table to be a call: all of them on amd64, and on
// arm64 those that are not the remains of older machines.
func TestNames(t *testing.T) {
	amd64, arm64 := numbers(t, "amd64"), numbers(t, "arm64")
	old := []string{"chmod", "creat", "mknod", "mkdir", "open", "modify_ldt", "iopl", "ioperm", "uselib",
		"_sysctl", "create_module", "query_module", "get_kernel_syms"}
	for _, r := range slices.Concat(byNumber(), byArgument(), byMode()) {
		if _, ok := amd64[r.name]; !ok {
			t.Errorf("amd64 has no %s", r.name)
		}
		if _, ok := arm64[r.name]; ok == slices.Contains(old, r.name) {
			t.Errorf("arm64 has %s: %v", r.name, ok)
		}
	}
}

// TestRest holds that whatever is not in the table is allowed, with any argument.
func TestRest(t *testing.T) {
	named := map[string]bool{}
	for _, r := range slices.Concat(byNumber(), byArgument(), byMode()) {
		named[r.name] = true
	}
	every(t, func(t *testing.T, o seccomp.Options) {
		program := filter(t, o)
		for name, number := range numbers(t, o.Arch) {
			for _, a := range []uint64{0, ^uint64(0)} {
				if named[name] {
					continue
				}
				if got := judge(t, program, request{audit[o.Arch], number, args(a, a, a, a, a, a)}); got != allow {
					t.Errorf("%s: %v", name, got)
				}
			}
		}
	})
}

// TestUnknown: what came after this package, and the x32 calls of amd64, which are
// doubles of the others with 1<<30 in their number.
func TestUnknown(t *testing.T) {
	every(t, func(t *testing.T, o seccomp.Options) {
		program := filter(t, o)
		for _, number := range []uint32{472, 473, 511, 512, 547, 1000, 1 << 30, 1<<30 | 41, 1<<30 | 272, 1<<30 | 520, 1 << 31, ^uint32(0)} {
			if got := judge(t, program, request{arch: audit[o.Arch], number: number}); got != enosys {
				t.Errorf("%#x: %v", number, got)
			}
		}
	})
}

// TestForeign: calls of another architecture are killed whatever they are. 310 is
// unshare on i386 and harmless by number on arm64.
func TestForeign(t *testing.T) {
	every(t, func(t *testing.T, o seccomp.Options) {
		program := filter(t, o)
		for _, arch := range []uint32{unix.AUDIT_ARCH_I386, unix.AUDIT_ARCH_ARM, unix.AUDIT_ARCH_X86_64,
			unix.AUDIT_ARCH_AARCH64, unix.AUDIT_ARCH_RISCV64, 0, ^uint32(0)} {
			for _, number := range []uint32{0, 1, 39, 310, 1 << 30, ^uint32(0)} {
				if arch == audit[o.Arch] {
					continue
				}
				if got := judge(t, program, request{arch: arch, number: number}); got != kill {
					t.Errorf("%#x %d: %v", arch, number, got)
				}
			}
		}
	})
}

func TestArch(t *testing.T) {
	own, zero := filter(t, seccomp.Options{Arch: runtime.GOARCH}), filter(t, seccomp.Options{})
	if !slices.Equal(own, zero) {
		t.Error("the zero Arch is not this machine's")
	}
	for _, arch := range []string{"386", "AMD64", "riscv64", " "} {
		if _, err := seccomp.Filter(seccomp.Options{Arch: arch}); err == nil || !strings.Contains(err.Error(), arch) {
			t.Errorf("%q: %v", arch, err)
		}
		if f, err := seccomp.File(seccomp.Options{Arch: arch}); err == nil || f != nil {
			t.Errorf("%q: a file", arch)
		}
	}
}
