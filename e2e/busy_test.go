package e2e

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Messages to an agent whose bash tool runs: a steer comes before the next
// request to the model, a follow-up when the turn is done, and all is one run.
func TestSteerAndFollowUp(t *testing.T) {
	t.Parallel()
	w, m := newReal(t)
	c := w.client()
	a := c.run(nil)
	task := "bash: touch /tmp/running; until [ -e /tmp/go ]; do sleep 0.02; done; echo went on"
	c.send(a.ID, task)
	c.arrives(a, "running")
	steer := call[sent](c, "send_message", obj{"agent_id": a.ID, "message": "to the left", "mode": "steer"})
	if steer != (sent{"hot_steer", "queued", "active"}) {
		t.Errorf("steer: %+v", steer)
	}
	later := call[sent](c, "send_message", obj{"agent_id": a.ID, "message": "hold: later", "mode": "follow_up"})
	if later != (sent{"hot_follow_up", "queued", "active"}) {
		t.Errorf("follow_up: %+v", later)
	}
	c.until(a.ID, "a queue of two", func(i info) bool { return i.QueueLength == 2 })
	c.let(a, "go")
	m.held(t, "later") // the run goes on as long as the provider does not answer
	if i := c.info(a.ID); i.State != "active" || i.SettleCount != 0 {
		t.Errorf("with a follow-up under way it is %s after %d settles", i.State, i.SettleCount)
	}
	m.release("later")
	i := c.settled(a.ID, 1)
	if i.text() != "I held later" || i.SettleCount != 1 || i.QueueLength != 0 {
		t.Errorf("in the end: %+v", i)
	}
	if diff := cmp.Diff([]string{task, "to the left", "hold: later"}, m.said()); diff != "" {
		t.Errorf("what the model heard: %s", diff)
	}
}

// An abort ends the tool with its children and the run, and keeps the process.
func TestAbort(t *testing.T) {
	t.Parallel()
	w, m := newReal(t)
	c := w.client()
	a := c.run(nil)
	c.send(a.ID, "bash: touch /tmp/running; sleep 1001 & sleep 1002")
	c.arrives(a, "running")
	eventually(t, func() bool { return count(w.caged(), ": sleep 100") == 2 }, func() string { return "the control: no sleep runs" })
	call[sent](c, "send_message", obj{"agent_id": a.ID, "message": "never heard"})
	type outcome struct {
		Aborted bool
		State   string
		Cleared []string
	}
	got := call[outcome](c, "abort", obj{"agent_id": a.ID})
	if !got.Aborted || got.State != "idle" || !slices.Equal(got.Cleared, []string{"never heard"}) {
		t.Errorf("abort: %+v", got)
	}
	if n := count(w.caged(), ": sleep 100"); n != 0 {
		t.Errorf("%d children of the tool are left", n)
	}
	i := c.ask(a.ID, "still there?")
	if i.text() != "You said: still there?" || *i.PID != *a.PID || i.LastError != nil {
		t.Errorf("the next turn: %+v", i)
	}
	if slices.Contains(m.said(), "never heard") {
		t.Error("the model heard a message that was cleared")
	}
}

// An abort of a run in which the provider is being waited for.
func TestAbortHeldProvider(t *testing.T) {
	t.Parallel()
	w, m := newReal(t)
	c := w.client()
	a := c.run(obj{"prompt": "hold: ever"})
	m.held(t, "ever")
	call[obj](c, "abort", obj{"agent_id": a.ID})
	if i := c.info(a.ID); i.State != "idle" || i.SettleCount != 1 {
		t.Errorf("after the abort: %+v", i)
	}
}

// The agent kills its own pi: exited at once, and it can come back.
func TestSelfExit(t *testing.T) {
	t.Parallel()
	w, _ := newReal(t)
	c := w.client("PI_MCP_REFRESH_PAUSE=" + time.Hour.String()) // no lap finds it: the exit is heard
	a := c.run(nil)
	c.ask(a.ID, "bash: echo remember: halibut")
	c.send(a.ID, "bash: kill -9 $PPID")
	i := c.untilState(a.ID, "exited")
	if i.Lifecycle.SelfExits != 1 || i.Lifecycle.Rips != 0 || i.PID != nil || i.ExitCode == nil || *i.ExitCode != 137 || i.LastError == nil {
		t.Errorf("after the exit: %+v", i)
	}
	if alive(*a.PID) || len(w.caged()) > 0 {
		t.Errorf("something is left of the cage: %v", w.caged())
	}
	call[info](c, "resurrect", obj{"agent_id": a.ID, "prompt": "recall"})
	i = c.settled(a.ID, i.SettleCount+1)
	has(t, "the answer", i.text(), "halibut")
	if i.LastError != nil || i.ExitCode != nil || i.Lifecycle.Retries != 1 {
		t.Errorf("after the resurrection: %+v", i)
	}
	call[obj](c, "remove", obj{"agent_id": a.ID})
	c.none()
	w.untouched()
}

// A provider that refuses is no end: idle, with the reason, until a good turn.
func TestProviderFails(t *testing.T) {
	t.Parallel()
	w, m := newReal(t)
	c := w.client()
	a := c.run(nil)
	i := c.ask(a.ID, "fail: the model is on strike")
	if i.State != "idle" || i.SettleCount != 1 || i.LastError == nil {
		t.Fatalf("after the failure: %+v", i)
	}
	has(t, "last_error", *i.LastError, "the model is on strike")
	if n := len(m.Requests()); n != 1 {
		t.Errorf("pi asked %d times: HTTP 400 is not to be retried", n)
	}
	if i = c.ask(a.ID, "and now?"); i.LastError != nil || i.SettleCount != 2 || i.text() != "You said: and now?" {
		t.Errorf("after the good turn: %+v", i)
	}
}
