package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"pi-mcp/agent/pi"
	"pi-mcp/agent/pirpc"
	"pi-mcp/artifacts"
)

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

// attached takes a process that has answered: from here on it is loop's.
func (a *liveAgent) attached(p *process) {
	a.proc, a.pi, a.dir = p.proc, p.pi, p.dir
	go a.watch(p)
	if a.row.ModelHost == "" {
		// Only now, when pi's directory and HOME are new: later an agent may have
		// changed what pi says.
		a.row.ModelHost = p.modelHost
	}
	a.connect(p)
	if a.state == Stopping { // stopped between the answer and here
		a.endpoint.revoke()
		a.ready <- errStopped
		a.release(errStopped)
		time.AfterFunc(a.grace(), a.proc.Kill)
		a.endProcess()
		return
	}
	a.arrived()
	a.check(p)
	a.ready <- nil
	a.release(nil)
	a.wake()                    // for what it was to be told while it had no process
	if a.sup.ctx.Err() != nil { // seen by loop while there was nothing to stop yet
		a.stop(ByShutdown)
	}
}

// watch tells loop of the end of the process.
func (a *liveAgent) watch(p *process) {
	p.wait()
	a.tell(func() { a.exited(p.proc.Exit(), p.ended(p.said.String())) })
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
