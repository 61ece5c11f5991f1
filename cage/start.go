package cage

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"pi-mcp/cage/cageinit"
	"pi-mcp/cage/cgroup"
	"pi-mcp/cage/seccomp"
)

// maxArgs is bubblewrap's own limit (MAX_ARGS in bubblewrap.c), counting what it
// is started with and what it reads from the descriptor.
const maxArgs = 9000

// Start runs argv in a cage made to spec. It returns when every mount has been
// verified from inside and the program has been executed; argv[0] is a path in the
// cage. When ctx ends before that, or anything is not as it must be, nothing is left
// and the error says why. Afterwards ctx means nothing: the program lives until it
// exits, until Kill or Close, or until this process ends, however it ends.
//
// Where one cage has mounts inside what another's program can write, their starts
// wait for each other, also those of other servers with the same state directory.
//
// The caller reads Out and Stderr to their ends and closes all three streams.
func (b *Bwrap) Start(ctx context.Context, spec Spec, argv []string) (*Proc, error) {
	s, err := openStreams()
	if err != nil {
		return nil, err
	}
	return b.launch(ctx, spec, argv, s)
}

// launch takes over both ends of the streams.
func (b *Bwrap) launch(ctx context.Context, spec Spec, argv []string, s streams) (p *Proc, err error) {
	defer closeAll(s.theirs[:])
	defer func() {
		if err != nil {
			closeAll(s.ours[:])
		}
	}()
	plan, err := b.plan(spec, argv)
	if err != nil {
		return nil, err
	}
	leave, err := b.enter(ctx, spec.Grants)
	if err != nil {
		return nil, fmt.Errorf("cannot wait until another cage is made: %w", err)
	}
	defer leave()
	a, err := b.spawn(plan, spec, s.theirs)
	if err != nil {
		return nil, err
	}
	closeAll(s.theirs[:]) // or what bubblewrap says would have no end
	a.order = spec.order(argv, a.checks, b.own)
	if spec.Network {
		a.order.Wall = plan.wall(b.landlock)
	}
	if err := b.begin(ctx, a); err != nil {
		said, _ := io.ReadAll(io.LimitReader(s.ours[2], maxReason))
		return nil, unmade(err, string(said))
	}
	a.proc.In, a.proc.Out, a.proc.Stderr = s.ours[0], s.ours[1], s.ours[2]
	return a.proc, nil
}

// plan looks at the host and plans the cage.
func (b *Bwrap) plan(spec Spec, argv []string) (*plan, error) {
	if err := spec.check(argv); err != nil {
		return nil, err
	}
	h, err := survey(b.features, b.void, b.program.path, spec)
	if err != nil {
		return nil, err
	}
	plan, err := spec.plan(h)
	if err != nil {
		return nil, err
	}
	if n := len(b.command()) + len(plan.args); n > maxArgs {
		return nil, fmt.Errorf("cannot make the cage: it takes %d arguments and bubblewrap takes %d; name fewer paths", n, maxArgs)
	}
	return plan, nil
}

// command is what bubblewrap is started with. It says nothing about the cage: in the
// host's process list everybody can read it.
func (b *Bwrap) command() []string {
	return []string{b.path, "--args", strconv.Itoa(argsFD), "--", cageinit.Path, cageinit.Command}
}

// spawn opens what the plan needs and starts bubblewrap with it.
func (b *Bwrap) spawn(plan *plan, spec Spec, streams [3]*os.File) (*attempt, error) {
	program, err := b.program.open()
	if err != nil {
		return nil, err
	}
	defer program.Close()
	inputs, err := plan.open(program)
	defer func() { closeAll(inputs) }()
	if err != nil {
		return nil, err
	}
	checks, err := plan.checks(inputs)
	if err != nil {
		return nil, err
	}
	filter, err := seccomp.File(seccomp.Options{Unix: spec.Unix, Debug: spec.Debug})
	if err != nil {
		return nil, err
	}
	defer filter.Close()
	ends, err := openEnds()
	if err != nil {
		return nil, err
	}
	defer closeAll(ends.theirs[:])
	files := append(streams[:], ends.theirs[:]...) // argsFD, statusFD, cageinit.ControlFD
	p, err := b.forkIn(append(append(files, filter), inputs...), spec.Group)
	if err != nil {
		ends.close()
		return nil, err
	}
	p.control = ends.control
	go p.listen(ends.status)
	return &attempt{proc: p, args: ends.args, packed: packed(plan.args), checks: checks}, nil
}

// forkInto is fork for a process that is in group, unless that is nil, before it has
// run at all. The thread that enters the group is the caller's.
func forkInto(group *cgroup.Group, path string, argv []string, files []*os.File) (p *Proc, err error) {
	if group == nil {
		return fork(path, argv, files, -1)
	}
	err = group.Enter(func() (err error) {
		p, err = fork(path, argv, files, group.FD())
		return err
	})
	if err != nil && p != nil { // it was started, and then the thread could not leave
		p.discard()
		p = nil
	}
	return p, err
}

// fork starts bubblewrap with files as its descriptors from 0 on and nothing else.
// Its environment is empty, because /proc/1/environ in the cage is what bubblewrap
// was started with. In a session of its own the terminal's signals do not reach it.
// Pdeathsig covers the moment until bubblewrap has asked for the same. A group of -1
// is none.
func fork(path string, argv []string, files []*os.File, group int) (*Proc, error) {
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
		Sys: &syscall.SysProcAttr{
			Setsid: true, Pdeathsig: syscall.SIGKILL, PidFD: &pidfd,
			UseCgroupFD: group >= 0, CgroupFD: group,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", path, err)
	}
	return newProc(pid, pidfd)
}

// ends are both ends of what is said to bubblewrap and to what it makes.
type ends struct {
	args    *os.File // ours, for writing
	status  *os.File // ours, for reading
	control cageinit.Control
	theirs  [3]*os.File
}

func openEnds() (e ends, err error) {
	defer func() {
		if err != nil {
			e.close()
			closeAll(e.theirs[:])
		}
	}()
	if e.args, e.theirs[0], err = socket(unix.SHUT_RD); err != nil {
		return e, err
	}
	if e.status, e.theirs[1], err = pipe(); err != nil {
		return e, err
	}
	e.control, e.theirs[2], err = cageinit.Pair()
	return e, err
}

// close closes our ends.
func (e ends) close() {
	closeAll([]*os.File{e.args, e.status})
	if e.control.UnixConn != nil {
		e.control.Close()
	}
}
