package agent

import (
	"context"
	"errors"
	"io"
	"slices"

	"pi-mcp/agent/pi"
	"pi-mcp/agent/pirpc"
	"pi-mcp/artifacts"
	"pi-mcp/cage"
	"pi-mcp/cage/cgroup"
)

// A process is a pi that runs and the conversation with it.
type process struct {
	proc  *cage.Proc
	pi    *pirpc.Client
	dir   *artifacts.Dir
	logs  *logs
	said  *tail
	heard chan struct{} // closed when stderr has ended
	left  func()        // removes what only held the processes
	group *cgroup.Group // nil without one
	met   cgroup.Events // of the whole life, set by left

	limits Limits

	endpoint *endpoint // of which nothing is left when wait returns

	modelHost string // host:port, set with the handshake's answer
}

// spawn starts the cage with pi in it. What it opened is closed on failure.
func (a *liveAgent) spawn(ctx context.Context, dir *artifacts.Dir, l launch) (*process, error) {
	args, err := pi.Args(a.row.Provider, a.row.Model, a.row.Thinking)
	if err != nil {
		return nil, &StartError{Step: "making pi's arguments", Reason: err.Error()}
	}
	files, err := openLogs(dir, a.sup.cfg.Limits)
	if err != nil {
		return nil, &StartError{Step: "opening its logs", Reason: err.Error()}
	}
	spec := a.spec(l)
	if spec.Group, err = a.sup.groups.make(a.id); err != nil {
		files.close()
		return nil, &StartError{Step: "making its control group", Reason: err.Error()}
	}
	proc, err := l.bwrap.Start(ctx, spec, append(slices.Clone(l.pi.Caged), args...))
	if err != nil {
		a.sup.groups.remove(spec.Group)
		files.close()
		return nil, uncaged(err)
	}
	p := &process{proc: proc, dir: dir, logs: files, said: &tail{}, heard: make(chan struct{}), group: spec.Group, limits: a.sup.cfg.Limits, endpoint: l.endpoint}
	p.left = func() {
		p.met = p.events()
		a.sup.groups.remove(p.group)
	}
	p.endpoint.open(proc.Listeners(), Caller{Group: a.group, Agent: a.id}, a.sup.serve) // pi may connect before it answers
	go func() {
		defer close(p.heard)
		_, _ = io.Copy(io.MultiWriter(p.said, careless{files.stderr}), proc.Stderr)
	}()
	a.files.Store(files)
	p.pi = pirpc.New(pirpc.Config{In: proc.In, Out: proc.Out, Log: files.stdout, On: a.hear, Want: wanted})
	return p, nil
}

// careless is a writer whose failures nobody minds: a full disk must not keep pi
// from being heard.
type careless struct{ io.Writer }

func (c careless) Write(p []byte) (int, error) {
	_, _ = c.Writer.Write(p)
	return len(p), nil
}

// uncaged says why there is no cage.
func uncaged(err error) error {
	e := &StartError{Step: "making the cage", Reason: err.Error()}
	switch {
	case errors.Is(err, context.Canceled):
		return errStopped
	case errors.Is(err, context.DeadlineExceeded):
		e.Reason = "it was not ready in time; --handshake sets the limit"
	}
	return e
}

// openLogs opens both logs. A limit of zero keeps nothing but the line that says
// so; to a Log it would mean that there is no limit.
func openLogs(dir *artifacts.Dir, l Limits) (*logs, error) {
	stdout, err := dir.Log(artifacts.Stdout, max(l.Stdout, 1))
	if err != nil {
		return nil, err
	}
	stderr, err := dir.Log(artifacts.Errors, max(l.Stderr, 1))
	if err != nil {
		return nil, errors.Join(err, stdout.Close())
	}
	return &logs{stdout, stderr}, nil
}

func (l *logs) close() {
	l.stdout.Close()
	l.stderr.Close()
}

// end kills the process and waits until nothing of it is left.
func (p *process) end() {
	p.proc.Kill()
	p.wait()
}

// wait returns when the process is gone and all it said has been taken.
func (p *process) wait() {
	<-p.proc.Done()
	p.endpoint.close()
	p.left()
	<-p.pi.Done()
	<-p.heard
	p.proc.Out.Close()
	p.proc.Stderr.Close()
}

// failure says why a start failed, once the process is gone.
func (p *process) failure(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*ArgError](err); ok {
		return err
	}
	e := &StartError{Step: "waiting for pi's first answer", Reason: err.Error(), Stderr: p.said.String()}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		e.Reason = "none came in time; --handshake sets the limit"
	case errors.Is(err, context.Canceled):
		return errStopped
	case errors.Is(err, pirpc.ErrClosed):
		e.Reason = p.ended("")
	}
	return e
}
