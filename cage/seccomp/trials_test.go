package seccomp_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A trial is something that a caged process does. Its want is the error under the
// strict filter; without a filter there must be another one or none. A trial that
// wants 0 must succeed with and without.
type trial struct {
	name  string
	want  unix.Errno
	unix  bool // Options.Unix allows it
	debug bool // Options.Debug does
	call  []any
	do    func(task) error // instead of call
}

// dir stands for a new name in the probe's directory, among the arguments of a call.
const dir = "\x00"

// try reports false if this architecture does not have the call. A call is its name
// and then its arguments, of which strings are passed by pointer.
func (t trial) try(do task) (unix.Errno, bool) {
	if t.do != nil {
		var errno unix.Errno
		if err := t.do(do); err != nil && !errors.As(err, &errno) {
			panic(err)
		}
		return errno, true
	}
	number, ok := do.Numbers[t.call[0].(string)]
	if !ok {
		return 0, false
	}
	var a [6]uintptr
	for i, arg := range t.call[1:] {
		switch arg := arg.(type) {
		case int:
			a[i] = uintptr(arg)
		case string:
			if arg == dir {
				arg = filepath.Join(do.Dir, t.name)
			}
			p, err := unix.BytePtrFromString(arg)
			if err != nil {
				panic(err)
			}
			defer runtime.KeepAlive(p)
			a[i] = uintptr(unsafe.Pointer(p))
		}
	}
	_, _, errno := unix.RawSyscall6(uintptr(number), a[0], a[1], a[2], a[3], a[4], a[5])
	return errno, true
}

const cwd = unix.AT_FDCWD

func trials() []trial {
	return append(modeTrials(), []trial{
		{name: "run", do: spawn(0, 0)},
		{name: "clone a user namespace", do: spawn(unix.CLONE_NEWUSER, 0), want: unix.EPERM},
		{name: "unshare a user namespace", do: spawn(0, unix.CLONE_NEWUSER), want: unix.EPERM},
		{name: "setns", call: []any{"setns", -1, 0}, want: unix.EPERM},
		{name: "clone3", call: []any{"clone3", 0, 0}, want: unix.ENOSYS},
		{name: "keyctl", call: []any{"keyctl", 9999}, want: unix.EPERM},
		{name: "io_uring", call: []any{"io_uring_setup", 1, 0}, want: unix.ENOSYS},
		{name: "openat2", call: []any{"openat2", cwd, "/", "", 0}, want: unix.ENOSYS},
		{name: "ptrace", call: []any{"ptrace", unix.PTRACE_ATTACH, 1 << 30}, want: unix.EPERM, debug: true},
		{name: "process_vm_readv", call: []any{"process_vm_readv", 1 << 30, 0, 0, 0, 0, 0}, want: unix.EPERM, debug: true},

		{name: "inet", call: []any{"socket", unix.AF_INET, unix.SOCK_STREAM, 0}},
		{name: "netlink", call: []any{"socket", unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}},
		{name: "unix", call: []any{"socket", unix.AF_UNIX, unix.SOCK_STREAM, 0}, want: unix.EPERM, unix: true},
		{name: "vsock", call: []any{"socket", unix.AF_VSOCK, unix.SOCK_STREAM, 0}, want: unix.EPERM},
		{name: "alg", call: []any{"socket", unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, want: unix.EPERM},
		{name: "stream pair", do: pair(unix.SOCK_STREAM)},
		{name: "packet pair", do: pair(unix.SOCK_SEQPACKET)},
		{name: "datagrams to a socket file", do: pair(unix.SOCK_DGRAM), want: unix.EPERM, unix: true},
		{name: "the same, called raw", do: pair(unix.SOCK_RAW), want: unix.EPERM, unix: true},

		{name: "TIOCSTI", call: []any{"ioctl", 0, unix.TIOCSTI, "x"}, want: unix.EPERM},
		{name: "TIOCSTI and more", call: []any{"ioctl", 0, 1<<32 | unix.TIOCSTI, "x"}, want: unix.EPERM},
		{name: "TIOCLINUX", call: []any{"ioctl", 0, unix.TIOCLINUX, "x"}, want: unix.EPERM},
	}...)
}

// modeTrials have files of their own, apart from those that change the mode of the
// directory.
func modeTrials() []trial {
	const write = unix.O_CREAT | unix.O_WRONLY
	return []trial{
		{name: "open a script", call: []any{"openat", cwd, dir, write, 0o755}},
		{name: "open", call: []any{"open", dir, write, 0o4755}, want: unix.EPERM},
		{name: "openat", call: []any{"openat", cwd, dir, write, 0o2755}, want: unix.EPERM},
		{name: "open to read", call: []any{"openat", cwd, ".", unix.O_RDONLY, 0o6755}},
		{name: "tmpfile", call: []any{"openat", cwd, ".", unix.O_TMPFILE | unix.O_RDWR, 0o4755}, want: unix.EPERM},
		{name: "creat", call: []any{"creat", dir, 0o4755}, want: unix.EPERM},
		{name: "fifo", call: []any{"mknodat", cwd, dir, unix.S_IFIFO | 0o644, 0}},
		{name: "mknod", call: []any{"mknod", dir, unix.S_IFREG | 0o4755, 0}, want: unix.EPERM},
		{name: "mknodat", call: []any{"mknodat", cwd, dir, unix.S_IFREG | 0o4755, 0}, want: unix.EPERM},
		{name: "directory", call: []any{"mkdirat", cwd, dir, 0o1777}},
		{name: "mkdir", call: []any{"mkdir", dir, 0o2755}, want: unix.EPERM},
		{name: "mkdirat", call: []any{"mkdirat", cwd, dir, 0o2755}, want: unix.EPERM},
		{name: "plain chmod", call: []any{"fchmodat", cwd, ".", 0o1755}},
		{name: "chmod", call: []any{"chmod", ".", 0o4755}, want: unix.EPERM},
		{name: "fchmodat", call: []any{"fchmodat", cwd, ".", 0o2755}, want: unix.EPERM},
		{name: "fchmod", want: unix.EPERM, do: func(do task) error {
			fd, err := unix.Open(do.Dir, unix.O_RDONLY, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Fchmod(fd, 0o6755)
		}},
	}
}

// spawn runs a program.
func spawn(clone, unshare uintptr) func(task) error {
	return func(task) error {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: clone, Unshareflags: unshare}
		return cmd.Run()
	}
}

// pair makes connected sockets and, if they are of the kind that can, has one of them
// send to somebody else.
func pair(kind int) func(task) error {
	return func(do task) error {
		fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fds[0])
		defer unix.Close(fds[1])
		if kind == unix.SOCK_DGRAM || kind == unix.SOCK_RAW {
			return unix.Sendto(fds[0], []byte("x"), 0, &unix.SockaddrUnix{Name: do.Socket})
		}
		_, err = unix.Write(fds[0], []byte("x"))
		return err
	}
}
