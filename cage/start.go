package cage

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxArgs is bubblewrap's own limit (MAX_ARGS in bubblewrap.c), counting what it
// is started with and what it reads from the descriptor.
const maxArgs = 9000

// Start runs argv in a cage made to spec, and returns as soon as bubblewrap itself
// has started: whether the cage could be made is told by Exit. argv[0] is a path in
// the cage, and argv is shown in the host's process list. The program lives until
// it exits, until Kill or Close, or until this process ends, however it ends.
//
// The caller reads Out and Stderr to their ends and closes all three streams.
func (b *Bwrap) Start(spec Spec, argv []string) (*Proc, error) {
	s, err := openStreams()
	if err != nil {
		return nil, err
	}
	defer closeAll(s.theirs[:])
	p, err := b.launch(spec, argv, s.theirs)
	if err != nil {
		closeAll(s.ours[:])
		return nil, err
	}
	p.In, p.Out, p.Stderr = s.ours[0], s.ours[1], s.ours[2]
	return p, nil
}

// launch starts argv with the given streams, which stay the caller's.
func (b *Bwrap) launch(spec Spec, argv []string, streams [3]*os.File) (*Proc, error) {
	if err := spec.check(argv); err != nil {
		return nil, err
	}
	h, err := survey(b.features, b.void, spec.Grants)
	if err != nil {
		return nil, err
	}
	plan, err := spec.plan(h)
	if err != nil {
		return nil, err
	}
	command := append([]string{b.path, "--args", strconv.Itoa(argsFD), "--"}, argv...)
	if n := len(command) + len(plan.args); n > maxArgs {
		return nil, fmt.Errorf("cannot make the cage: it takes %d arguments and bubblewrap takes %d; "+
			"name fewer paths and environment variables", n, maxArgs)
	}
	return b.run(plan, command, streams)
}

// run opens what the plan needs and starts bubblewrap with it.
func (b *Bwrap) run(plan *plan, command []string, streams [3]*os.File) (*Proc, error) {
	inputs, err := plan.open()
	defer func() { closeAll(inputs) }()
	if err != nil {
		return nil, err
	}
	args, err := memory(packed(plan.args))
	if err != nil {
		return nil, err
	}
	defer args.Close()
	status, statusEnd, err := pipe()
	if err != nil {
		return nil, err
	}
	defer statusEnd.Close()
	life, lifeEnd, err := socket(unix.SHUT_WR)
	if err != nil {
		status.Close()
		return nil, err
	}
	defer lifeEnd.Close()
	files := append(streams[:], args, statusEnd, lifeEnd) // argsFD, statusFD, lifeFD
	p, err := b.spawn(command, append(files, inputs...))
	if err != nil {
		closeAll([]*os.File{status, life})
		return nil, err
	}
	go p.watch(status, life, func() { b.forget(p) })
	return p, nil
}

// fork starts bubblewrap with files as its descriptors from 0 on and nothing else.
// Its environment is empty, because /proc/1/environ in the cage is what bubblewrap
// was started with. In a session of its own the terminal's signals do not reach it.
// Pdeathsig covers the moment until bubblewrap has asked for the same.
func fork(path string, argv []string, files []*os.File) (*Proc, error) {
	if err := seal(); err != nil {
		return nil, err
	}
	fds := make([]uintptr, len(files))
	for i, f := range files {
		fds[i] = f.Fd()
	}
	pidfd := -1
	pid, err := syscall.ForkExec(path, argv, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{},
		Files: fds,
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, PidFD: &pidfd},
	})
	if err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", path, err)
	}
	return newProc(pid, pidfd)
}

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
