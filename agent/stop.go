package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"pi-mcp/agent/pirpc"
)

// stop asks for the agent's end. The first cause decides, but a remove during a
// rip still removes, and the server's stop does not wait for a longer grace.
func (a *liveAgent) stop(cause Cause) {
	switch {
	case a.over:
		return
	case a.state == Stopping:
		if cause == ByRemove {
			a.cause = cause
		}
		if cause == ByShutdown && a.proc != nil {
			time.AfterFunc(a.sup.cfg.CloseGrace, a.proc.Kill)
		}
		return
	case a.state == Starting && cause == ByShutdown:
		a.cancel() // the call that started it fails, so all of it is taken back
		return
	}
	runAll(&a.turn.commits) // a run that has ended has ended, whatever is still to be found out
	a.cause = cause
	a.midRun = a.turn.busy()
	a.endpoint.revoke() // it starts nothing any more that the stop does not know of
	if a.proc == nil {
		a.move(Stop)
		a.cancel() // launch ends and says so
		return
	}
	// Armed first: a database that somebody else keeps locked must not keep the
	// process alive.
	time.AfterFunc(a.grace(), a.proc.Kill)
	a.move(Stop)
	a.endProcess()
}

// grace is how long the process may take to end by itself.
func (a *liveAgent) grace() time.Duration {
	if a.cause == ByShutdown || a.sup.ctx.Err() != nil {
		return a.sup.cfg.CloseGrace
	}
	return a.sup.cfg.Grace
}

// endProcess asks pi to end. The run is aborted first, so that the session records
// it as aborted; then the end of its input tells pi to exit. There is no SIGTERM:
// it would end bubblewrap, and with it the cage, without ever reaching pi.
func (a *liveAgent) endProcess() {
	if a.turn.busy() {
		_ = a.pi.Send("abort", nil, func(pirpc.Response) {})
	}
	_ = a.pi.CloseInput()
}

// settleStop counts a stop that has come to its end.
func (a *liveAgent) settleStop() {
	switch a.cause {
	case ByRip, ByLimit:
		now := time.Now()
		a.row.Rips++
		a.row.RippedAt = &now
		if a.cause == ByLimit {
			a.row.LastError = filled(a.checks.reason)
		}
	case ByShutdown:
		a.row.LastError = filled("stopped with the server")
	}
}

// end stops a live agent for who and waits for the end. It reports whether this call was
// the one that began it. The stop goes on when ctx ends before.
func (a *liveAgent) end(ctx context.Context, who Caller, cause Cause) (began bool, err error) {
	told := make(chan bool, 1)
	a.tell(func() {
		first := a.state != Stopping && !a.over
		if first {
			a.by = who.Agent
		}
		told <- first
		a.stop(cause)
	})
	select {
	case <-a.gone:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	select {
	case began = <-told:
	default: // it was gone before it could be told
	}
	return began, nil
}

// A RipResult is an agent after a rip.
type RipResult struct {
	Info
	Ripped        bool `json:"ripped"`
	AlreadyRipped bool `json:"already_ripped"`
	Descendants   int  `json:"descendants" jsonschema:"how many agents below it were stopped with it"`
}

// Rip stops an agent and keeps everything it left. Ripping a stopped agent
// changes nothing. With descendants all that live below it are stopped, too, in
// whatever group they are.
func (s *Supervisor) Rip(ctx context.Context, who Caller, id string, descendants bool) (res RipResult, err error) {
	row, a, err := s.owned(ctx, who, id)
	if err != nil {
		return RipResult{}, err
	}
	began := false
	if a != nil { // first, so that it starts no more of them
		if began, err = a.end(ctx, who, ByRip); err != nil {
			return RipResult{}, err
		}
		if row, err = s.cfg.Store.Agent(context.WithoutCancel(ctx), who.Group, id); err != nil {
			return RipResult{}, err
		}
	}
	if descendants {
		if res.Descendants, err = s.endBelow(ctx, who, id); err != nil {
			return RipResult{}, err
		}
	}
	res.Ripped, res.AlreadyRipped = true, State(row.State) == Ripped && !began
	res.Info, err = s.info(ctx, row)
	return res, err
}

// endBelow stops all that lives below an agent and returns how many those were. It
// looks again until there is nothing: one that is being stopped may just have started
// another.
func (s *Supervisor) endBelow(ctx context.Context, who Caller, id string) (ended int, err error) {
	for {
		ids, err := s.cfg.Store.Descendants(ctx, id, true)
		if err != nil || len(ids) == 0 {
			return ended, err
		}
		errs := make([]error, len(ids))
		var all sync.WaitGroup
		for i, id := range ids {
			all.Go(func() { errs[i] = s.endAny(ctx, who, id) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return ended, err
		}
		ended += len(ids)
	}
}

// endAny stops an agent for somebody who need not see it.
func (s *Supervisor) endAny(ctx context.Context, who Caller, id string) error {
	row, err := s.cfg.Store.Any(ctx, id)
	if err == nil {
		var a *liveAgent
		if _, a, err = s.owned(ctx, Caller{Group: row.Group}, id); err == nil && a != nil {
			_, err = a.end(ctx, who, ByRip)
		}
	}
	if errors.Is(err, ErrNotFound) {
		return nil // somebody else was faster
	}
	return err
}

// A RemoveResult says that an agent is no more.
type RemoveResult struct {
	AgentID     string `json:"agent_id"`
	Removed     bool   `json:"removed"`
	Descendants int    `json:"descendants" jsonschema:"how many agents below it were removed with it"`
}

// Remove stops an agent and deletes its row and its directory. With descendants all
// that are below it are removed before it, in whatever group they are.
func (s *Supervisor) Remove(ctx context.Context, who Caller, id string, descendants bool) (RemoveResult, error) {
	res := RemoveResult{AgentID: id, Removed: true}
	if descendants {
		var err error
		if res.Descendants, err = s.removeBelow(ctx, who, id); err != nil {
			return RemoveResult{}, err
		}
	}
	_, a, err := s.owned(ctx, who, id)
	if err != nil {
		return RemoveResult{}, err
	}
	if a != nil {
		if _, err := a.end(ctx, who, ByRemove); err != nil {
			return RemoveResult{}, err
		}
	}
	// An agent that ended by itself before it could be told is still there.
	if err := s.bury(id); err != nil {
		return RemoveResult{}, err
	}
	return res, nil
}

// removeBelow stops an agent and all that is below it, and removes the latter, the
// deepest first: what a crash leaves still has its parents.
func (s *Supervisor) removeBelow(ctx context.Context, who Caller, id string) (removed int, err error) {
	if _, err := s.Rip(ctx, who, id, true); err != nil {
		return 0, err
	}
	ids, err := s.cfg.Store.Descendants(ctx, id, false)
	for _, below := range slices.Backward(ids) {
		if err := s.bury(below); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, err
}

// bury removes a stopped agent. One that is gone already is fine; one that
// somebody has brought back meanwhile is left alone.
func (s *Supervisor) bury(id string) error {
	err := s.storeOf(id, s.cfg.Store.Tombstone)
	if !errors.Is(err, ErrNotFound) {
		if err != nil {
			return err
		}
		return s.erase(id)
	}
	ctx, cancel := s.writing()
	defer cancel()
	row, err := s.cfg.Store.Any(ctx, id)
	switch {
	case errors.Is(err, ErrNotFound), err == nil && row.Removing: // whoever put up the tombstone goes on
		return nil
	case err != nil:
		return err
	}
	return &StateError{ID: id, State: State(row.State), Remedy: "somebody has just resurrected it; remove it again"}
}
