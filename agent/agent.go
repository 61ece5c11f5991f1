package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"pi-mcp/agent/pirpc"
	"pi-mcp/artifacts"
	"pi-mcp/cage"
	"pi-mcp/cage/egress"
	"pi-mcp/store"
)

// A liveAgent is one pi in one cage, from the start to the exit. Its goroutine,
// loop, is the only one that touches the fields below the line; everybody else
// sends it a function to run.
//
// There is one inbox so that there is one order: pi's records, pi's answers, the
// end of the process and callers' requests are taken in the order in which they
// were seen. With a channel for each, a settle could overtake the answer of the
// prompt that caused it.
type liveAgent struct {
	id        string
	group     string
	ancestors []string
	sup       *Supervisor
	inbox     chan func()
	mail      chan struct{} // takes one value: there may be something to be told
	gone      chan struct{} // closed when loop has returned and the last state is stored
	ready     chan error    // takes one value: how the start went
	queued    atomic.Int64  // messages that pi has queued
	files     atomic.Pointer[logs]
	proxy     atomic.Pointer[egress.Proxy] // nil with policy host and before ready

	warnings []string // of the rules it was started with; not changed once it is known

	// ---- loop's own ----

	row    store.Agent // as it is in the store
	state  State
	cause  Cause              // of the stop under way
	cancel context.CancelFunc // ends the start under way
	over   bool               // the last state is stored

	endpoint *endpoint // nil until there is a process, and without one

	proc *cage.Proc    // nil until ready
	pi   *pirpc.Client // nil until ready
	dir  *artifacts.Dir

	turn    turn
	checks  checks
	waiting []func(error) // requests that came before ready

	debts     []store.Debt // to be stored with the row
	by        string       // the agent that asked for the stop, "" for others
	midRun    bool         // a run was on when the stop began
	letter    *letter      // news that pi has been sent and has not yet put into the session
	searching bool         // news are looked for in the session
	waited    waited
}

// logs are the two files that an agent's output goes to.
type logs struct{ stdout, stderr *artifacts.Log }

func newLive(s *Supervisor, row store.Agent) *liveAgent {
	return &liveAgent{
		id: row.ID, group: row.Group, ancestors: row.Ancestors, sup: s, row: row, state: State(row.State),
		inbox: make(chan func(), 64),
		mail:  make(chan struct{}, 1),
		gone:  make(chan struct{}),
		ready: make(chan error, 1),
	}
}

// tell hands f to loop and reports whether it will be run: it will not once loop
// has returned.
func (a *liveAgent) tell(f func()) bool {
	select {
	case a.inbox <- f:
		return true
	case <-a.gone:
		return false
	}
}

// offer is tell for what may as well be done another time: it does not wait.
func (a *liveAgent) offer(f func()) {
	select {
	case a.inbox <- f:
	default:
	}
}

// logs returns the sizes of the logs. It may be called from any goroutine.
func (a *liveAgent) logs() Logs {
	l := a.files.Load()
	if l == nil {
		return Logs{}
	}
	return Logs{l.stdout.Size(), l.stderr.Size()}
}

// loop is the agent's goroutine. It ends when the process is gone and the last
// state is stored.
func (a *liveAgent) loop() {
	defer func() {
		a.sup.forget(a)
		close(a.gone)
		a.drain()
	}()
	shutdown := a.sup.ctx.Done()
	for !a.over {
		select {
		case f := <-a.inbox:
			f()
		case <-a.mail:
			a.deliver()
		case <-shutdown:
			shutdown = nil
			a.stop(ByShutdown)
		}
	}
}

// drain runs what was put into the inbox before gone was closed, so that no
// caller is left without an answer.
func (a *liveAgent) drain() {
	for {
		select {
		case f := <-a.inbox:
			f()
		default:
			return
		}
	}
}

// move is the only place where an agent's state changes: the table is asked, the
// row is written, and then it is so.
func (a *liveAgent) move(e Event) {
	to, err := a.state.On(e, Facts{Busy: a.turn.busy(), Cause: a.cause, Resume: State(a.row.Resume)})
	if err != nil {
		a.sup.cfg.Log.Warn("refused move", "agent", a.id, "err", err)
		return
	}
	a.state = to
	a.row.State = string(to)
	a.row.Living = to.Living()
	if e != Lost {
		a.row.LastActivity = time.Now()
	}
	a.save()
}

// save writes the row, and only then tells those who wait. One that cannot be written is logged: the process is what
// counts, and the next save carries everything. Only the last has no next, and
// is tried again until it succeeds or the server stops; then the next server
// finds the row.
func (a *liveAgent) save() {
	if a.over {
		return // the row may be somebody else's by now
	}
	a.row.Updated = time.Now()
	if !a.row.Living {
		a.row.Owner, a.row.PID, a.row.PIDStart, a.row.Boot, a.row.Resume = "", 0, 0, "", ""
	}
	if a.dir != nil {
		sizes := a.dir.Sizes()
		a.row.StdoutBytes, a.row.StderrBytes, a.row.SessionBytes = sizes.Stdout, sizes.Stderr, sizes.Session
	}
	if State(a.row.State) == Gone {
		a.row.Removing = true
		a.row.Owner = a.sup.cfg.Store.Owner() // whose crash would leave the removal half done
	}
	for !a.write() && !a.row.Living {
		select {
		case <-time.After(saveAgain):
		case <-a.sup.ctx.Done():
			return
		}
	}
	a.sup.waiters.signal(a.id)
}

// saveAgain is the pause before a last state is written again.
const saveAgain = time.Second

// write reports whether the row is stored, or was taken away.
func (a *liveAgent) write() bool {
	row, debts := a.row, a.debts
	err := a.sup.store(func(ctx context.Context) error {
		if len(debts) == 0 {
			return a.sup.cfg.Store.Save(ctx, row)
		}
		return a.sup.cfg.Store.SaveOwing(ctx, row, debts, a.sup.bound())
	})
	if err == nil && len(debts) > 0 {
		a.debts = nil
		a.sup.post(row.Callback)
	}
	if err != nil {
		a.sup.cfg.Log.Error("cannot store a state", "agent", a.id, "state", row.State, "err", err)
	}
	return err == nil || errors.Is(err, store.ErrNotFound)
}

// finish ends the loop: the state is final, the files are closed, and what was
// to vanish vanishes.
func (a *liveAgent) finish() {
	if l := a.files.Load(); l != nil {
		l.close()
	}
	a.checks.close()
	if a.dir != nil {
		a.dir.Close()
	}
	if a.state == Gone {
		if err := a.sup.erase(a.id); err != nil {
			a.sup.cfg.Log.Error("cannot erase an agent", "agent", a.id, "err", err)
		}
	}
	a.queued.Store(0)
	a.over = true
}

// exited takes the end of the process, and why in words.
func (a *liveAgent) exited(e cage.Exit, why string) {
	runAll(&a.turn.commits) // for those that pi does not live to give the facts of
	a.turn.drop()
	a.disconnect()
	a.letter = nil // what it was to tell is still owed
	code := e.Code
	a.row.ExitCode = &code
	if a.cause == ByNobody {
		a.row.SelfExits++
		a.row.LastError = filled(why)
	}
	a.settleStop()
	a.oweEnd()
	a.move(Exit)
	a.finish()
}

// exitReason says how a process ended, in words.
func exitReason(e cage.Exit, stderr string) string {
	how := fmt.Sprintf("pi exited with code %d", e.Code)
	if e.Signal != "" {
		how = "pi was ended by " + e.Signal
	}
	if stderr != "" {
		how += ": " + stderr
	}
	return how
}

// refuse answers a request that came too late.
func (a *liveAgent) refuse() error {
	if a.state.Living() {
		return &StateError{ID: a.id, State: a.state, Remedy: "it is being stopped; wait for the end, then use resurrect"}
	}
	return &StateError{ID: a.id, State: a.state, Remedy: "it has no process; use resurrect first"}
}
