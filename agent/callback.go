package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"pi-mcp/store"
)

// Why an agent's target is told something.
const (
	whySettled = "settled" // a run came to its end
	whyAborted = "aborted" // a run was ended by abort
	whyFailed  = "failed"  // a run ended because the model's answer failed
	whyExited  = "exited"  // the process ended by itself
	whyRipped  = "ripped"  // somebody else stopped the process in the middle of a run
	whyRemoved = "removed" // somebody else removed the agent in the middle of a run
)

// maxNewsText bounds an agent's last text in what its target is told, in bytes: it
// goes into the context of a model.
const maxNewsText = 8 << 10

// A news is what a target is told of one end. It is written down with the end.
type news struct {
	AgentID     string `json:"agent_id"`
	Sequence    int64  `json:"sequence"` // not known before it is stored
	Name        string `json:"name"`
	Why         string `json:"why"`
	SettleCount int64  `json:"settle_count"`

	LastAssistantText      *string `json:"last_assistant_text"`
	LastAssistantTextBytes int64   `json:"last_assistant_text_bytes"`
	More                   string  `json:"more,omitempty"` // where the rest of the text is

	LastError *string `json:"last_error"`
	ExitCode  *int    `json:"exit_code"`

	Artifacts       Artifacts `json:"artifacts"`
	PendingChildren []string  `json:"pending_children"`
}

// working are the states of agents that will have something to tell.
func working() []string { return []string{string(Starting), string(Active), string(Stopping)} }

// owe makes the debt of an end for the next save, if somebody is to be told of it. by
// is the agent that caused it: what one did oneself is no news.
func (a *liveAgent) owe(why, by string) {
	target := a.row.Callback
	if target == "" || by == target {
		return
	}
	ctx, cancel := a.sup.writing()
	defer cancel()
	pending, err := a.sup.cfg.Store.Working(ctx, a.id, working(), a.sup.cfg.Limits.Callbacks)
	if err != nil {
		a.sup.cfg.Log.Warn("cannot tell who still works for an agent", "agent", a.id, "err", err)
	}
	debt := a.sup.debtOf(&a.row, why, pending)
	if len(pending) > 0 && a.state == Active && a.cause == ByNobody && why != whyExited {
		debt.Hold = time.Now().Add(a.sup.cfg.CallbackHold)
	}
	a.debts = append(a.debts, debt)
}

// oweEnd makes the debt of the end of the process. A stop at rest is none.
func (a *liveAgent) oweEnd() {
	switch {
	case a.cause == ByNobody:
		a.owe(whyExited, "")
	case a.midRun && a.cause == ByRemove:
		a.owe(whyRemoved, a.by)
	case a.midRun && a.cause != ByShutdown:
		a.owe(whyRipped, a.by)
	}
}

// debtOf is what a row owes its target for an end.
func (s *Supervisor) debtOf(row *store.Agent, why string, pending []string) store.Debt {
	paths := s.cfg.Artifacts.Paths(row.ID)
	n := news{
		AgentID: row.ID, Name: row.Name, Why: why, SettleCount: row.SettleCount,
		LastAssistantTextBytes: row.LastTextBytes, ExitCode: row.ExitCode,
		Artifacts: Artifacts{Dir: paths.Dir, StdoutLog: paths.StdoutLog, ErrorLog: paths.ErrorLog,
			Session: paths.Session, Tmp: paths.Tmp},
		PendingChildren: list(pending),
	}
	if row.LastText != nil {
		text := clipEncoded(*row.LastText, maxNewsText)
		n.LastAssistantText = filled(text)
		if row.LastTextBytes > int64(len(text)) {
			n.More = "the text is cut: get_info has more of it, and grep and read find all of it in the agent's stdout"
		}
	}
	if row.LastError != nil {
		n.LastError = filled(clipEncoded(*row.LastError, maxNewsText/4))
	}
	return store.Debt{Target: row.Callback, Body: n.encode()}
}

// encode is the news as JSON on one line. Nothing in it is for a browser, so what is
// markup is left as it is.
func (n news) encode() string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(n); err != nil {
		panic(err) // strings and numbers
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// clipEncoded cuts a text to most bytes, and to half as much more in JSON: control
// characters take six bytes there.
func clipEncoded(text string, most int) string {
	text = clip(text, most)
	for {
		encoded := len(news{Name: text}.encode()) - len(news{}.encode())
		if encoded <= most*3/2 {
			return text
		}
		text = clip(text, len(text)*most/encoded)
	}
}

// bound is how often an agent may tell without a client's message in between.
func (s *Supervisor) bound() store.Bound {
	most := s.cfg.Limits.Callbacks
	return store.Bound{Most: most, Held: fmt.Sprintf("held: it has called back %d times without a message of a client in between, which is the limit --max-callbacks; a client's message to it or to the agent that it tells lets it go on", most)}
}

// asked notes that a client has spoken to an agent.
func (s *Supervisor) asked(who Caller, id string) {
	if who.caged() {
		return
	}
	err := s.store(func(ctx context.Context) error { return s.cfg.Store.Asked(ctx, id, s.bound().Held) })
	if err != nil {
		s.cfg.Log.Warn("cannot note a client's message", "agent", id, "err", err)
	}
}

// post has a live agent of this server look whether there is something to be told.
func (s *Supervisor) post(id string) {
	if a := s.find(id); a != nil {
		a.wake()
	}
}

func (a *liveAgent) wake() {
	select {
	case a.mail <- struct{}{}:
	default: // it is to look anyhow
	}
}

// postEvery is how often is looked for what may be told by now, unless the lap's pause
// is shorter.
const postEvery = time.Second

// postman has agents told what could not be told at once: what was put off, held, or
// owed by an agent of another server.
func (s *Supervisor) postman() {
	every := postEvery
	if pause := s.cfg.RefreshPause; pause > 0 {
		every = min(every, pause)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		if len(s.liveIDs()) == 0 {
			continue
		}
		ids, err := s.cfg.Store.Creditors(s.ctx, time.Now(), working(), s.cfg.Limits.Callbacks)
		if err != nil && s.ctx.Err() == nil {
			s.cfg.Log.Warn("cannot look for what is to be told", "err", err)
		}
		for _, id := range ids {
			s.post(id)
		}
	}
}
