package main

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernel are the probes of single system calls.
func kernel() []probe {
	return []probe{
		{47, "the session keyring", func(World) (string, error) {
			_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
			return "found", err
		}},
		{48, "io_uring_setup", func(World) (string, error) {
			var params [120]byte
			return opens(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0, 0, 0)
		}},
		{49, "bpf", func(World) (string, error) {
			attr := [18]uint32{unix.BPF_MAP_TYPE_ARRAY, 4, 4, 1} // type, key, value, entries
			return opens(unix.SYS_BPF, unix.BPF_MAP_CREATE, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0, 0)
		}},
		{50, "perf_event_open", func(World) (string, error) {
			attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK,
				Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
			attr.Size = uint32(unsafe.Sizeof(attr))
			return descriptor(unix.PerfEventOpen(&attr, 0, -1, -1, unix.PERF_FLAG_FD_CLOEXEC))
		}},
		{51, "userfaultfd", func(World) (string, error) {
			const userModeOnly = 1
			return opens(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|userModeOnly, 0, 0, 0, 0)
		}},
		{63, "shared memory of the host", func(w World) (string, error) {
			_, err := unix.SysvShmGet(w.Shared, 0, 0)
			return "found", err
		}},
		{70, "personality without randomized addresses", func(World) (string, error) {
			const noRandomize = 0x0040000
			_, _, errno := unix.RawSyscall(unix.SYS_PERSONALITY, noRandomize, 0, 0)
			return reached(errno, 0)
		}},
		{77, "a priority of -20", func(World) (string, error) { return "set", unix.Setpriority(unix.PRIO_PROCESS, 0, -20) }},
		{78, "sethostname", func(World) (string, error) {
			name, err := os.Hostname()
			if err != nil {
				return "", err
			}
			return "set", unix.Sethostname([]byte(name))
		}},
		{79, "more open files than the limit", func(World) (string, error) {
			var limit unix.Rlimit
			if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
				return "", err
			}
			limit.Max++
			return "raised", unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
		}},
		{80, "a system call of the 32-bit ABI", func(World) (string, error) {
			if pid := compat(); pid <= 0 {
				return "", errors.New("no such call")
			}
			return "called", nil
		}},
	}
}

// opens makes a call that returns a descriptor.
func opens(number, a, b, c, d, e uintptr) (string, error) {
	fd, _, errno := unix.Syscall6(number, a, b, c, d, e, 0)
	if errno != 0 {
		return "", errno
	}
	return "descriptor", unix.Close(int(fd))
}
