package agent

import (
	"context"

	"pi-mcp/agent/pi"
	"pi-mcp/cage"
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
	endpoint   *endpoint   // of this start, made with its files; nil without one
}

// programs finds what a start runs and is limited by. It makes nothing, and tries out no
// cage: where none can be made, or bubblewrap leaves out something of it, the first process
// of the cage finds that and the start says why, before pi runs; the next tries again.
func (s *Supervisor) programs(ctx context.Context) (launch, error) {
	if err := s.groups.check(s.cfg.Limits); err != nil {
		return launch{}, startError(ctx, "checking its limits", err)
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
		l.endpoint.close()
		a.tell(func() { a.failed(dir, &StartError{Step: "making its directory", Reason: err.Error()}) })
		return
	}
	p, err := a.spawn(ctx, dir, l)
	if err != nil {
		l.endpoint.close()
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
	a.endpoint = p.endpoint
	a.row.PID, a.row.PIDStart, a.row.Boot = p.proc.PID(), p.proc.StartTime(), a.sup.boot
	a.save()
}
