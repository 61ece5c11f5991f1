package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"

	"pi-mcp/agent/pi"
	"pi-mcp/agent/pirpc"
	"pi-mcp/artifacts"
	"pi-mcp/cage"
	"pi-mcp/cage/egress"
	"pi-mcp/store"
)

// errStopped is why a start ends that somebody stopped.
var errStopped error = &StartError{Step: "waiting for pi's first answer", Reason: "stopped during start"}

// A launch is what one start works with: found out before anything is made.
type launch struct {
	pi         *pi.Install
	bwrap      *cage.Bwrap
	cache      string // the warmed compile cache; "" without one
	credential pi.Credential
	modelHost  string      // host:port, "" before the first handshake with a provider of pi's own
	grants     cage.Grants // resolved afresh, with the automatic ones
	warnings   []string    // about them
}

// programs finds what a start runs and is limited by. It makes nothing, and tries out no
// cage: where none can be made the start says why, before pi runs, and the next tries again.
func (s *Supervisor) programs(ctx context.Context) (launch, error) {
	if err := s.groups.check(s.cfg.Limits.Processes); err != nil {
		return launch{}, startError(ctx, "limiting its processes", err)
	}
	install, err := s.tools.install(ctx, s.cfg)
	if err != nil {
		return launch{}, startError(ctx, "looking for pi", err)
	}
	bwrap, err := s.tools.cage(s.cfg)
	if err != nil {
		return launch{}, startError(ctx, "looking for bubblewrap", err)
	}
	return launch{pi: install, bwrap: bwrap}, nil
}

// prepare finds out what else a start needs, given programs and grants.
func (s *Supervisor) prepare(ctx context.Context, l *launch, provider string) (err error) {
	if l.credential, err = l.pi.Auth(ctx, provider); err != nil {
		return startError(ctx, "checking the credentials", err)
	}
	l.cache = s.cache(ctx, l.pi, l.bwrap)
	return ctx.Err()
}

// startError is a failed step, unless it only failed because ctx ended.
func startError(ctx context.Context, step string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &StartError{Step: step, Reason: err.Error()}
}

// start brings a up from a stored row in state Starting: it makes the agent
// known and waits for the handshake. When ctx ends first, or anything fails,
// everything that was made is taken back before start returns.
func (s *Supervisor) start(ctx context.Context, a *liveAgent, l launch) error {
	ready, cancel := context.WithTimeout(s.ctx, s.cfg.Handshake)
	defer cancel()
	a.cancel = cancel
	a.warnings = l.warnings
	if err := s.enlist(a); err != nil {
		return err
	}
	go a.launch(ready, l)
	select {
	case err := <-a.ready:
		if err != nil {
			<-a.gone
		}
		return err
	case <-ctx.Done():
	}
	cancel()
	if err := <-a.ready; err == nil {
		return nil // it was ready first
	}
	<-a.gone
	return ctx.Err()
}

// launch makes the process and has the first words with pi. It tells loop how
// that went, exactly once.
func (a *liveAgent) launch(ctx context.Context, l launch) {
	dir, err := a.furnish(&l)
	if err != nil {
		a.tell(func() { a.failed(dir, &StartError{Step: "making its directory", Reason: err.Error()}) })
		return
	}
	p, err := a.spawn(ctx, dir, l)
	if err != nil {
		a.tell(func() { a.failed(dir, err) })
		return
	}
	a.tell(func() { a.born(p) })
	if err := a.greet(ctx, p); err != nil {
		p.end()
		err = p.failure(ctx, err)
		a.tell(func() { a.failed(dir, err) })
	}
}

// born writes down which process it is before it has answered: whoever finds the
// row of a dead server knows what to look for.
func (a *liveAgent) born(p *process) {
	a.row.PID, a.row.PIDStart, a.row.Boot = p.proc.PID(), p.proc.StartTime(), a.sup.boot
	a.save()
}

// greet sends the handshake. It returns nil when the answer came in time and
// loop has been told to take the process, and an error when it will not be.
func (a *liveAgent) greet(ctx context.Context, p *process) error {
	answered := make(chan error, 1)
	var decided sync.Once // the answer or the deadline, whichever is first
	err := p.pi.Send("get_state", nil, func(r pirpc.Response) {
		err := a.checkState(r, p)
		decided.Do(func() {
			if err == nil {
				// From the reader, so that what pi says next comes after it.
				a.tell(func() { a.attached(p) })
			}
			answered <- err
		})
	})
	if err != nil {
		return err
	}
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
	}
	decided.Do(func() { answered <- ctx.Err() })
	return <-answered
}

// checkState looks at the handshake's answer. pi takes patterns for models, and
// other models for unknown names; then a context_size is set for a model that is
// not used, and would be lost without a word. Where the model is goes into p.
func (a *liveAgent) checkState(r pirpc.Response, p *process) error {
	if err := answerError("get_state", r); err != nil {
		return err
	}
	var state struct {
		Model struct {
			ID            string
			BaseURL       string
			ContextWindow int64
		}
	}
	if err := json.Unmarshal(r.Data, &state); err != nil {
		return fmt.Errorf("its answer to get_state is no state: %w", err)
	}
	p.modelHost = hostPort(state.Model.BaseURL)
	if size := a.row.ContextSize; size > 0 && state.Model.ContextWindow != pi.Window(size) {
		return &ArgError{"context_size", fmt.Sprintf("cannot be applied, because pi took model %q for %q: pass the model's exact id, or leave context_size out", state.Model.ID, a.row.Model)}
	}
	return nil
}

// furnish makes the agent's directory, or what of it is made anew each time.
func (a *liveAgent) furnish(l *launch) (*artifacts.Dir, error) {
	all := a.sup.cfg.Artifacts
	if !a.row.Ready { // a start that was stopped early may or may not have made it
		err := all.Create(a.id, pi.SessionHeader(a.id, a.row.Cwd, a.row.Created))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	dir, err := all.Agent(a.id)
	if err != nil {
		return nil, err
	}
	if err := mountPoints(dir, l.grants); err != nil {
		return dir, err
	}
	files, err := pi.Files(pi.FilesConfig{
		HostDir: a.sup.cfg.HostPi, Provider: a.row.Provider, Model: a.row.Model,
		Key: l.credential.Key, OAuth: l.credential.OAuth, ContextSize: a.row.ContextSize,
		Told: told(&a.row, l.grants),
	})
	if err != nil {
		return dir, err
	}
	l.modelHost = modelHost(a.row.ModelHost, files, a.row.Provider, a.row.Model)
	return dir, dir.WritePi(files)
}

// mountPoints makes the places of grants below the host's /tmp in the agent's own
// /tmp, which covers the host's in the cage. No process of the agent lives now.
func mountPoints(dir *artifacts.Dir, g cage.Grants) error {
	dirs, files, err := g.Under("/tmp")
	if err != nil {
		return err
	}
	for _, p := range dirs {
		if err := dir.MountPoint(p, true); err != nil {
			return err
		}
	}
	for _, p := range files {
		if err := dir.MountPoint(p, false); err != nil {
			return err
		}
	}
	return nil
}

// A process is a pi that runs and the conversation with it.
type process struct {
	proc  *cage.Proc
	pi    *pirpc.Client
	dir   *artifacts.Dir
	logs  *logs
	said  *tail
	heard chan struct{} // closed when stderr has ended
	left  func()        // removes what only held the processes

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
	if spec.Group, err = a.sup.groups.make(a.id, a.sup.cfg.Limits.Processes); err != nil {
		files.close()
		return nil, &StartError{Step: "limiting its processes", Reason: err.Error()}
	}
	left := func() { a.sup.groups.remove(spec.Group) }
	proc, err := l.bwrap.Start(ctx, spec, append(slices.Clone(l.pi.Caged), args...))
	if err != nil {
		left()
		files.close()
		return nil, uncaged(err)
	}
	p := &process{proc: proc, dir: dir, logs: files, said: &tail{}, heard: make(chan struct{}), left: left}
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
	exit := p.proc.Exit()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		e.Reason = "none came in time; --handshake sets the limit"
	case errors.Is(err, context.Canceled):
		return errStopped
	case errors.Is(err, pirpc.ErrClosed):
		e.Reason = exitReason(exit, "")
	}
	return e
}

// attached takes a process that has answered: from here on it is loop's.
func (a *liveAgent) attached(p *process) {
	a.proc, a.pi, a.dir, a.said = p.proc, p.pi, p.dir, p.said
	go a.watch(p)
	if a.row.ModelHost == "" {
		// Only now, when pi's directory and HOME are new: later an agent may have
		// changed what pi says.
		a.row.ModelHost = p.modelHost
	}
	a.connect(p)
	if a.state == Stopping { // stopped between the answer and here
		a.ready <- errStopped
		a.release(errStopped)
		time.AfterFunc(a.grace(), a.proc.Kill)
		a.endProcess()
		return
	}
	a.arrived()
	a.ready <- nil
	a.release(nil)
	if a.sup.ctx.Err() != nil { // seen by loop while there was nothing to stop yet
		a.stop(ByShutdown)
	}
}

// watch tells loop of the end of the process.
func (a *liveAgent) watch(p *process) {
	p.wait()
	a.tell(func() { a.exited(p.proc.Exit()) })
}

// arrived writes down that the start succeeded.
func (a *liveAgent) arrived() {
	if a.row.Resume != "" {
		now := time.Now()
		a.row.Retries++
		a.row.ResurrectedAt = &now
		a.row.LastError, a.row.ExitCode = nil, nil
	}
	a.row.Ready = true
	a.row.Resume = ""
	a.move(Ready)
}

// failed takes a start that did not get as far as ready. The process, if there
// was one, is gone.
func (a *liveAgent) failed(dir *artifacts.Dir, err error) {
	a.dir = dir
	if a.state == Stopping {
		err = errStopped
		a.settleStop()
		a.move(Exit)
	} else {
		a.move(StartFailed)
	}
	a.release(err)
	a.finish()
	a.ready <- err
}

// release runs what waited for the start.
func (a *liveAgent) release(err error) {
	waiting := a.waiting
	a.waiting = nil
	for _, f := range waiting {
		f(err)
	}
}

// spec is the cage of one agent.
func (a *liveAgent) spec(l launch) cage.Spec {
	p := a.sup.cfg.Artifacts.Paths(a.id)
	binds := []cage.Bind{
		{Source: p.Tmp, Target: "/tmp", Write: true},
		{Source: p.Home, Target: "/home/agent", Write: true},
		{Source: p.Pi, Target: "/pi-agent", Write: true},
		{Source: p.Session, Target: "/agent_session.jsonl", Write: true},
	}
	env := []string{
		"PATH=" + searchPath(l.pi.Caged[0]),
		"HOME=/home/agent", "USER=agent", "LANG=C.UTF-8", "TERM=dumb", "TMPDIR=/tmp",
		"AGENT_ID=" + a.id,
		"PI_CODING_AGENT_DIR=/pi-agent", "PI_OFFLINE=1", "PI_TELEMETRY=0", "PI_SKIP_VERSION_CHECK=1",
	}
	for _, m := range l.pi.Mounts {
		binds = append(binds, cage.Bind{Source: m.Source, Target: m.Target})
	}
	if l.cache != "" {
		binds = append(binds, cage.Bind{Source: l.cache, Target: cacheTarget})
		env = append(env, "NODE_COMPILE_CACHE="+cacheTarget)
	}
	spec := cage.Spec{Grants: l.grants, Spellings: a.row.Spellings, Binds: binds, Env: env, Dir: a.row.Cwd, Network: true, Limits: a.sup.cfg.Limits.perProcess()}
	if policyOf(a.row.Network) != egress.Host {
		spec.Network, spec.Listen = false, []string{proxyAddress}
		spec.Env = append(spec.Env, proxyEnv(l.modelHost)...)
	}
	return spec
}

// answerError is what is wrong with an answer of pi's, nil if nothing is.
func answerError(command string, r pirpc.Response) error {
	switch {
	case r.Err != nil:
		return r.Err
	case !r.Success:
		return &PiError{Command: command, Reason: r.Error}
	}
	return nil
}

// erase removes all that is left of an agent whose row is tombstoned. It may be
// repeated from any point. A directory that is not this database's is left alone;
// one that cannot be deleted now stays in the trash for the next time.
func (s *Supervisor) erase(id string) error {
	if err := s.cfg.Artifacts.Trash(id); errors.Is(err, artifacts.ErrForeign) {
		s.cfg.Log.Warn("the directory of a removed agent is not this database's and stays", "agent", id, "err", err)
	} else if err != nil {
		return fmt.Errorf("cannot set aside the directory: %w", err)
	}
	err := s.store(func(ctx context.Context) error { return s.cfg.Store.Delete(ctx, id) })
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("cannot delete the row: %w", err)
	}
	s.emptyTrash()
	return nil
}

// emptyTrash deletes the directories of removed agents.
func (s *Supervisor) emptyTrash() {
	if err := s.cfg.Artifacts.EmptyTrash(); err != nil {
		s.cfg.Log.Warn("cannot delete all that was removed; it is tried again at the next removal", "err", err)
	}
}

// writing is the context of a change that nobody's cancellation may undo half way.
func (s *Supervisor) writing() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 10*time.Second)
}

// errLate is why something was not written: the server is at the end of its stop.
var errLate = errors.New("the database is locked and the server stops")

// store makes a change like writing, and at the end of a stop does not wait for
// it: a call that waits for a locked database cannot be interrupted.
func (s *Supervisor) store(change func(context.Context) error) error {
	done := make(chan error, 1)
	go func() {
		ctx, cancel := s.writing()
		defer cancel()
		done <- change(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-s.late:
		return errLate
	}
}
