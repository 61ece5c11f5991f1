package mcpserver

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// openStdin returns stdin as a file that can be closed while it is read. A
// pipe or socket is read through Go's poller: a read(2) that blocks cannot be
// ended, and can hold up a garbage collection, and with it the whole process,
// for a minute. A terminal or file stays as it is, because not blocking is a
// property that it shares with everyone who has it open.
func openStdin() (io.ReadCloser, error) { return polled(0, "stdin") }

// openStdout returns stdout likewise, so that a client that stopped reading
// cannot hold Close up. From then on a write to a closed stdout or stderr is
// an error for the writer; without this it is the SIGPIPE that ends a Go
// program before it can stop its agents. Processes started later have the
// default, as ever: a signal that is caught is not inherited, one that is
// ignored would be.
func openStdout() (io.WriteCloser, error) {
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	return polled(1, "stdout")
}

// polled duplicates fd, non-blocking if it is a pipe or socket. fd itself stays
// open: a file opened later must never get the number of a standard stream.
func polled(fd int, name string) (*os.File, error) {
	number, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("cannot duplicate %s: %w", name, err)
	}
	var stat unix.Stat_t
	if err := unix.Fstat(number, &stat); err != nil {
		unix.Close(number)
		return nil, fmt.Errorf("cannot look at %s: %w", name, err)
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFIFO, unix.S_IFSOCK:
		if err := unix.SetNonblock(number, true); err != nil {
			unix.Close(number)
			return nil, fmt.Errorf("cannot make %s non-blocking: %w", name, err)
		}
	}
	return os.NewFile(uintptr(number), name), nil
}

// watch calls fail as soon as nobody can read file any more; a client that is
// killed while nothing is being written would otherwise go unseen. It returns
// when that has happened, when file is closed, or at once for a file that
// cannot be polled. It waits for read events, which an output has only on such
// occasions, and so leaves writers alone.
func (f *front) watch(file syscall.Conn) {
	conn, err := file.SyscallConn()
	if err != nil {
		return
	}
	gone := false
	look := func(fd uintptr) { gone = hungUp(fd) }
	conn.Read(func(fd uintptr) bool { look(fd); return gone })
	if !gone {
		conn.Control(look) // the poller reports some hang-ups as an error of its own
	}
	if gone {
		f.fail(unix.EPIPE)
	}
}

// hungUp reports whether the other end of fd is closed for good.
func hungUp(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd)}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}
