package cage

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// streams are both ends of a program's three streams, in the order of their
// numbers. Input and output are sockets, because a pipe can be opened again through
// /proc by whatever the program starts, which could then forge its output.
type streams struct {
	ours, theirs [3]*os.File
}

func openStreams() (s streams, err error) {
	defer func() {
		if err != nil {
			closeAll(s.ours[:])
			closeAll(s.theirs[:])
		}
	}()
	for i, half := range []int{unix.SHUT_RD, unix.SHUT_WR} {
		if s.ours[i], s.theirs[i], err = socket(half); err != nil {
			return s, err
		}
	}
	s.ours[2], s.theirs[2], err = pipe()
	return s, err
}

// socket returns two connected ends, of which ours is shut in the direction half.
func socket(half int) (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a stream for the cage: %w", err)
	}
	theirs = os.NewFile(uintptr(fds[1]), "stream")
	if err := unix.Shutdown(fds[0], half); err != nil {
		return nil, nil, fmt.Errorf("cannot make a stream for the cage: %w", err)
	}
	return polled(fds[0]), theirs, nil
}

// pipe returns our reading end and their writing end.
func pipe() (ours, theirs *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("cannot make a pipe for the cage: %w", err)
	}
	return polled(fds[0]), os.NewFile(uintptr(fds[1]), "pipe"), nil
}

// polled hands fd to the runtime's poller, so that waiting on it takes no thread.
func polled(fd int) *os.File {
	unix.SetNonblock(fd, true) // fails only for what is not a descriptor
	return os.NewFile(uintptr(fd), "cage")
}

func closeAll[F io.Closer](files []F) {
	for _, f := range files {
		f.Close() // a nil *os.File only returns an error
	}
}
