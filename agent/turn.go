package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"pi-mcp/agent/pi"
	"pi-mcp/agent/pirpc"
	"pi-mcp/store"
)

// settleWait bounds how long a settle waits for pi's numbers. A pi that does not
// give them settles without.
const settleWait = 2 * time.Second

// A turn counts what keeps an agent active. It belongs to the agent's loop.
//
// A prompt counts from before it is written: pi may settle it before the answer
// has been read.
type turn struct {
	unanswered int // prompts written and not yet answered
	accepted   int // prompts taken by pi since the last settle
	running    bool
	runs       runs
	settling   int      // settles that wait for their facts
	commits    []func() // end that wait, each once
	quiet      int      // laps in a row in which pi knew nothing of the prompts it took
	failure    string   // of the last answer of the model, "" if there was none
	aborter    string   // the agent that aborted the run, "" for others
	settled    []func() // to run when no settle waits any more
	answered   []func() // to run when no prompt waits for its answer any more
}

// runs counts what was read of runs.
type runs struct{ begun, settled int }

// busy reports whether a run is on or a prompt outstanding. The settle that is
// being committed no longer counts.
func (t *turn) busy() bool {
	return t.running || t.unanswered > 0 || t.accepted > 0 || t.settling > 0
}

// drop forgets everything: the process is gone.
func (t *turn) drop() {
	late := append(t.settled, t.answered...)
	*t = turn{}
	runAll(&late)
}

// runAll runs what was put off. What is put off meanwhile is left.
func runAll(late *[]func()) {
	all := *late
	*late = nil
	for _, f := range all {
		f()
	}
}

// wanted are the records that move an agent. All others are only logged.
func wanted(kind string) bool {
	switch kind {
	case "agent_start", "agent_settled", "message_end", "queue_update", "extension_ui_request":
		return true
	}
	return false
}

// hear is called by the reader for each wanted record, in order. What the record
// says is taken out here, because its bytes are the reader's.
func (a *liveAgent) hear(r pirpc.Record) {
	switch r.Type {
	case "agent_start":
		a.tell(a.runStarted)
	case "agent_settled":
		var d struct{ Aborted bool }
		_ = json.Unmarshal(r.Raw, &d) // without a word it was not
		a.tell(func() { a.settled(d.Aborted) })
	case "message_end":
		if text, ok := lettered(r); ok {
			a.tell(func() { a.took(text) })
		}
		if failure, ok := failureOf(r); ok {
			a.tell(func() { a.turn.failure = failure })
		}
	case "queue_update":
		var q struct{ Steering, FollowUp []json.RawMessage }
		if json.Unmarshal(r.Raw, &q) == nil {
			a.queued.Store(int64(len(q.Steering) + len(q.FollowUp)))
		}
	case "extension_ui_request":
		if d, ok := dialogOf(r); ok {
			a.tell(func() { a.asked(d) })
		}
	}
}

// failureOf returns how an assistant's message failed: "" when it did not. ok is
// false for messages of others. A record too long to keep is no failure.
func failureOf(r pirpc.Record) (failure string, ok bool) {
	var m struct {
		Message struct{ Role, StopReason, ErrorMessage string }
	}
	if r.Cut || json.Unmarshal(r.Raw, &m) != nil || m.Message.Role != "assistant" {
		return "", false
	}
	if m.Message.StopReason != "error" {
		return "", true
	}
	if m.Message.ErrorMessage == "" {
		return "the model's answer failed", true
	}
	return clip(m.Message.ErrorMessage, 8<<10), true
}

// lettered returns the text of a user's message that may be one of news.
func lettered(r pirpc.Record) (text string, ok bool) {
	if r.Cut || !bytes.Contains(r.Raw, []byte(letterHead)) {
		return "", false
	}
	var m struct{ Message json.RawMessage }
	if json.Unmarshal(r.Raw, &m) != nil {
		return "", false
	}
	return pi.UserText(m.Message)
}

// dialogOf names a question that blocks pi; notices are none.
func dialogOf(r pirpc.Record) (string, bool) {
	var d struct{ Method, Title, Message string }
	if json.Unmarshal(r.Raw, &d) != nil {
		return "", false
	}
	switch d.Method {
	case "select", "confirm", "input", "editor":
	default:
		return "", false
	}
	if d.Title == "" {
		d.Title = d.Message
	}
	return clip(d.Method+": "+d.Title, 1<<10), true
}

func (a *liveAgent) asked(dialog string) {
	a.row.Dialogs++
	a.row.LastDialog = dialog
	a.save()
}

func (a *liveAgent) runStarted() {
	if a.state == Stopping {
		return // the last word of a stop, as for settled
	}
	a.turn.running = true
	a.turn.runs.begun++
	a.turn.quiet = 0
	a.turn.failure = ""
	a.move(RunStart)
}

// settled asks pi for what the run came to. The agent stays active until the
// answers are in, so that nobody sees it idle with the text of the run before.
// Answers that come too late are taken all the same.
func (a *liveAgent) settled(aborted bool) {
	if a.state != Active {
		return // a settle without a run, or the last word of a stop
	}
	a.turn.running = false
	a.turn.accepted = 0
	a.turn.runs.settled++
	a.turn.settling++
	failure := a.turn.failure // of this run: the next may begin before this is committed
	aborter := a.turn.aborter
	a.turn.failure, a.turn.aborter = "", ""
	missing, done := 2, false
	commit := func() {
		if !done {
			done = true
			a.commit(failure, aborted, aborter)
		}
	}
	a.turn.commits = append(a.turn.commits, commit)
	late := time.AfterFunc(settleWait, func() { a.tell(commit) })
	took := func() {
		if missing--; missing > 0 {
			return
		}
		late.Stop()
		if done {
			a.save()
		}
		commit()
	}
	for _, ask := range []func(func()) bool{a.askStats, a.askText} {
		if !ask(took) {
			took()
		}
	}
}

// commit records a settle whose facts are in.
func (a *liveAgent) commit(failure string, aborted bool, aborter string) {
	if a.turn.settling--; a.turn.settling == 0 {
		a.turn.commits = nil
	}
	if a.state != Active {
		return
	}
	a.row.SettleCount++
	a.row.LastError = filled(failure)
	a.waitsSettled(aborted) // first: whom it has heard through them works for it no more
	switch {
	case aborted:
		a.owe(whyAborted, aborter)
	case failure != "":
		a.owe(whyFailed, "")
	default:
		a.owe(whySettled, "")
	}
	a.move(Settle)
	a.reclaim()
	if a.turn.settling == 0 {
		runAll(&a.turn.settled)
	}
}

// whenSettled runs f as soon as no settle waits for its facts.
func (a *liveAgent) whenSettled(f func()) {
	if a.turn.settling == 0 {
		f()
		return
	}
	a.turn.settled = append(a.turn.settled, f)
}

// askStats asks pi for the session's numbers. They go into the row, which then has
// still to be saved; an answer that fails changes nothing. It reports whether pi
// was asked; then took runs in loop after the answer.
func (a *liveAgent) askStats(took func()) bool {
	return nil == a.pi.Send("get_session_stats", nil, func(r pirpc.Response) {
		var s stats
		ok := r.Err == nil && r.Success && json.Unmarshal(r.Data, &s) == nil
		a.tell(func() {
			if ok {
				s.into(&a.row)
			}
			took()
		})
	})
}

// askText asks pi for the last answer, like askStats.
func (a *liveAgent) askText(took func()) bool {
	return nil == a.pi.Send("get_last_assistant_text", nil, func(r pirpc.Response) {
		a.tell(func() {
			a.takeText(r)
			took()
		})
	})
}

// stats is what pi's get_session_stats says of a session.
type stats struct {
	UserMessages, AssistantMessages, ToolCalls int64
	Tokens                                     struct{ Input, Output, CacheRead, CacheWrite, Total int64 }
	Cost                                       float64
}

func (s stats) into(row *store.Agent) {
	row.Messages = store.Messages{User: s.UserMessages, Assistant: s.AssistantMessages, ToolCalls: s.ToolCalls}
	row.Tokens = store.Tokens(s.Tokens)
	row.Cost = s.Cost
}

// takeText keeps the beginning of the last answer. Of one that is too long to be
// read nothing is kept, rather than the answer of the run before.
func (a *liveAgent) takeText(r pirpc.Response) {
	var d struct{ Text *string }
	switch {
	case errors.Is(r.Err, pirpc.ErrTooLong):
	case r.Err != nil || !r.Success || json.Unmarshal(r.Data, &d) != nil:
		return
	}
	a.row.LastText, a.row.LastTextBytes = nil, 0
	if d.Text != nil {
		text := clip(*d.Text, maxInfoText)
		a.row.LastText, a.row.LastTextBytes = &text, int64(len(*d.Text))
	}
}
