// Package seccomp builds the system call filter that every process of a cage runs
// under: a classic BPF program, as bubblewrap's --seccomp takes it.
//
// The mounts and namespaces of a cage decide what an agent can reach. The filter
// takes away the calls that could change them, that reach past them or that leave
// something behind which works outside:
//
//   - calls of another architecture kill the process: the lists below hold this
//     one's numbers, and a foreign call could be any of them under another number;
//   - making or entering namespaces, mounting, keyrings, bpf, modules, clocks and the
//     like answer EPERM, and so does looking into other processes;
//   - calls that have an older equivalent, which this filter can judge and they
//     cannot be, answer ENOSYS, so that programs use that one: clone3, openat2,
//     fchmodat2, io_uring. Calls newer than this package do, too;
//   - sockets are those of IP and netlink, and of AF_UNIX when Options.Unix says so;
//   - nothing gets a set-uid or set-gid bit. A cage drops the right to use one, but a
//     file in a write grant is one of the host's, where somebody else may run it.
//
// Every other call is allowed. A filter is inherited and cannot be taken off.
package seccomp

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Options choose a filter. The zero value is the strict one for this machine.
type Options struct {
	// Arch is amd64 or arm64, as in GOARCH. Zero means what this program was built for.
	Arch string

	// Unix allows sockets of AF_UNIX: tmux, ssh-agent and Python's
	// multiprocessing.Manager need them. With them every socket file is within reach
	// that a grant shows, read-only or not, and in the host's network every abstract
	// one. Zero allows only socketpair, and that without datagrams.
	Unix bool

	// Debug allows a process to look into others of its cage, for strace and gdb.
	Debug bool
}

// newest is the last call that this package has an opinion about: rseq_slice_yield of
// Linux 7.0. Calls added since number 424 have the same one on every architecture.
const newest = 471

// Filter returns the program. It fails only for an Arch that has none.
func Filter(o Options) ([]Instruction, error) {
	m, err := machineOf(o.Arch)
	if err != nil {
		return nil, err
	}
	program := []step{
		load(archOffset), jump(jumpEqual, m.audit, 1, 0), ret(unix.SECCOMP_RET_KILL_PROCESS),
		// The calls of amd64's x32 ABI have numbers from 1<<30, so this is for them, too.
		load(numberOffset), jump(jumpAtLeast, newest+1, 0, 1), fail(unix.ENOSYS),
	}
	for _, r := range rules(o) {
		program = append(program, when(m.numbers(r.calls), r.then)...)
	}
	return assemble(append(program, ret(unix.SECCOMP_RET_ALLOW)))
}

// A machine is what differs between architectures. The constants of package unix that
// the rules use (errors, CLONE_*, AF_*, TIOC*) have one value on both.
type machine struct {
	audit  uint32 // what the kernel gives as seccomp_data.arch
	number func(call) int
}

func machineOf(arch string) (machine, error) {
	if arch == "" {
		arch = runtime.GOARCH
	}
	switch arch {
	case "amd64":
		return machine{unix.AUDIT_ARCH_X86_64, func(c call) int { return c.amd64 }}, nil
	case "arm64":
		return machine{unix.AUDIT_ARCH_AARCH64, func(c call) int { return c.arm64 }}, nil
	}
	return machine{}, fmt.Errorf("cannot filter system calls on %s: only amd64 and arm64 have a table of them", arch)
}

// numbers leaves out the calls that the machine does not have.
func (m machine) numbers(calls []call) (all []uint32) {
	for _, c := range calls {
		if n := m.number(c); n != none {
			all = append(all, uint32(n))
		}
	}
	return all
}
