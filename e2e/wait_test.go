package e2e

import (
	"encoding/json"
	"testing"
)

// waited is the result of wait.
type waited struct {
	Done     bool
	TimedOut bool `json:"timed_out"`
	Agents   []struct {
		ID, State   string
		SettleCount int64   `json:"settle_count"`
		Text        *string `json:"last_assistant_text"`
		LastError   *string `json:"last_error"`
	}
}

// A client works with two agents as a model would: it gives each a task, waits for
// the first, then for both, and hears that one of them failed, without ever asking
// for their state.
func TestWaitForTwo(t *testing.T) {
	t.Parallel()
	w, m := newReal(t)
	c := w.client()
	first, second := c.run(obj{"prompt": "hold: one"}), c.run(obj{"prompt": "hold: two"})
	both := obj{"agent_ids": []string{first.ID, second.ID}, "after": obj{first.ID: first.SettleCount, second.ID: second.SettleCount}}
	now := call[waited](c, "wait", with(both, "timeout_seconds", 0))
	if now.Done || !now.TimedOut || now.Agents[0].State != "active" || now.Agents[1].State != "active" {
		t.Errorf("before either is done: %+v", now)
	}
	got := c.waiting(with(both, "timeout_seconds", 100))
	m.release("two")
	if one := got(); !one.Done || one.Agents[0].State != "active" || one.Agents[1].State != "idle" || str(one.Agents[1].Text) != "I held two" {
		t.Errorf("when the second is done: %+v", one)
	}
	c.send(second.ID, "fail: no more money")
	both["after"].(obj)[second.ID] = 1
	got = c.waiting(with(with(both, "timeout_seconds", 100), "until", "all"))
	m.release("one")
	all := got()
	a, b := all.Agents[0], all.Agents[1]
	if !all.Done || a.SettleCount != 1 || str(a.Text) != "I held one" || a.LastError != nil || b.SettleCount != 2 || b.LastError == nil {
		t.Errorf("in the end: %+v, errors %q and %q", all, str(a.LastError), str(b.LastError))
	}
}

// waiting begins a wait. got is its result.
func (c *client) waiting(args obj) (got func() waited) {
	var text string
	var failed bool
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		text, failed, err = c.try("wait", args)
	}()
	return func() (v waited) {
		c.t.Helper()
		<-ended
		if failed || err != nil {
			c.t.Fatalf("wait: %s%v", text, err)
		}
		must(c.t, json.Unmarshal([]byte(text), &v))
		return v
	}
}
