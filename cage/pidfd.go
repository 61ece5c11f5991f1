package cage

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// A pidfd is a process, not a number: it never comes to mean another one.
type pidfd struct{ file *os.File }

// openPidfd returns the process that has this pid now.
func openPidfd(pid int) (pidfd, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return pidfd{}, err
	}
	return pidfd{polled(fd)}, nil
}

// openInit returns the first process of the pid namespace ns, which bubblewrap says
// is pid. False: it is gone, and its namespace with it.
func openInit(pid int, ns uint64) (pidfd, bool) {
	init, err := openPidfd(pid)
	if err != nil {
		return pidfd{}, false
	}
	// If the number has been given to another process, that one is elsewhere.
	if link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err != nil || link != fmt.Sprintf("pid:[%d]", ns) {
		init.file.Close()
		return pidfd{}, false
	}
	return init, true
}

// wait returns when the process has ended, in the poller and not on a thread.
func (p pidfd) wait() error {
	conn, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Read(func(fd uintptr) bool { return ended(int(fd)) })
}

// ended reports whether the process has, without waiting.
func (p pidfd) ended() bool {
	conn, err := p.file.SyscallConn()
	if err != nil {
		return true
	}
	over := true
	conn.Control(func(fd uintptr) { over = ended(int(fd)) })
	return over
}

func ended(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 0)
		if err != unix.EINTR {
			return err != nil || n > 0
		}
	}
}

// kill sends SIGKILL. An error means that the process has ended.
func (p pidfd) kill() error {
	conn, err := p.file.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = conn.Control(func(fd uintptr) { sent = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
	if err != nil {
		return err
	}
	return sent
}

// adopt collects a process that has ended and has become our child: in a container
// this server may be pid 1, which inherits every cage's first process. Anywhere else
// there is nothing to collect.
func (p pidfd) adopt() {
	if conn, err := p.file.SyscallConn(); err == nil {
		conn.Control(func(fd uintptr) {
			unix.Waitid(unix.P_PIDFD, int(fd), nil, unix.WEXITED|unix.WNOHANG, nil)
		})
	}
}
