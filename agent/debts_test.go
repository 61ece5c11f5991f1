package agent_test

import (
	"strings"
	"testing"
	"time"

	"pi-mcp/agent"
)

// Which ends are news, and which are not: what the target did itself, a server that
// stops, a rip of one that rests.
func TestWhatIsOwed(t *testing.T) {
	w := newWorld(t)
	p := w.run(agent.RunRequest{})
	w.busy(p.AgentID) // so that all stays owed
	failed := do("role", "assistant", "content", []any{}, "stopReason", "error", "errorMessage", "no credit")
	rip := func(who agent.Caller) func(string, func()) {
		return func(id string, _ func()) { _, err := w.sup.Rip(t.Context(), who, id, false); must(t, err) }
	}
	remove := func(who agent.Caller) func(string, func()) {
		return func(id string, _ func()) { _, err := w.sup.Remove(t.Context(), who, id, false); must(t, err) }
	}
	abort := func(who agent.Caller) func(string, func()) {
		return func(id string, _ func()) { _, err := w.sup.Abort(t.Context(), who, id, true); must(t, err) }
	}
	finish := func(id string, done func()) {
		done()
		w.until(id, "the end", func(i agent.Info) bool { return i.State != agent.Active })
	}
	parent := w.as(p.AgentID)
	for _, tc := range []struct {
		name, want string
		busy       bool
		last       []map[string]any
		end        func(id string, done func())
	}{
		{"settle", "settled", true, nil, finish},
		{"failure", "failed", true, []map[string]any{record("message_end", "message", failed), record("agent_settled", "aborted", false)}, finish},
		{"abort by a client", "aborted", true, nil, abort(w.who)},
		{"abort by the target", "", true, nil, abort(parent)},
		{"rip in a turn", "ripped", true, nil, rip(w.who)},
		{"rip in a turn by the target", "", true, nil, rip(parent)},
		{"rip at rest", "", false, nil, rip(w.who)},
		{"removal in a turn", "removed", true, nil, remove(w.who)},
		{"removal in a turn by the target", "", true, nil, remove(parent)},
		{"removal at rest", "", false, nil, remove(w.who)},
		{"exit in a turn", "exited", true, []map[string]any{do("exit", 7)}, finish},
		{"exit at rest", "exited", false, nil, func(id string, _ func()) { w.kill(id) }},
	} {
		c := w.child(p.AgentID)
		done := func() {}
		if tc.busy {
			done = w.busy(c.AgentID, tc.last...)
		}
		tc.end(c.AgentID, done)
		var got []string
		for _, d := range w.owed(p.AgentID) {
			if n := news(t, d.Body); d.Child == c.AgentID {
				got = append(got, n.Why)
				if tc.name == "failure" && (n.LastError == nil || *n.LastError != "no credit") ||
					tc.name == "exit in a turn" && (n.ExitCode == nil || *n.ExitCode != 7) {
					t.Errorf("%s: %+v", tc.name, n)
				}
			}
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("%s: owed %q, not %q", tc.name, got, tc.want)
		}
		if _, err := w.db.Any(t.Context(), c.AgentID); err == nil {
			w.remove(c.AgentID) // what it owes stays
		}
	}
	before := len(w.owed(p.AgentID))
	w.busy(w.child(p.AgentID).AgentID)
	w.sup.Close()
	if after := len(w.owed(p.AgentID)); after != before || before != 7 {
		t.Errorf("%d debts before the stop of the server, %d after", before, after)
	}
}

// kill ends the process of an idle agent.
func (w *world) kill(id string) {
	w.t.Helper()
	pid := *w.info(id).PID
	must(w.t, killPID(pid))
	w.untilState(id, agent.Exited)
}

// An agent whose children are at work is told of later, with theirs, in one message.
func TestCallbackWaitsForChildren(t *testing.T) {
	w := newWorld(t)
	p := w.run(agent.RunRequest{})
	c := w.child(p.AgentID)
	g := w.child(c.AgentID)
	done := w.busy(g.AgentID)
	w.says(c.AgentID, "started one")
	owed := w.owed(p.AgentID)
	if len(owed) != 1 || len(w.due(p.AgentID)) != 0 {
		t.Errorf("owed %v, due %v", owed, w.due(p.AgentID))
	}
	if n := news(t, owed[0].Body); len(n.PendingChildren) != 1 || n.PendingChildren[0] != g.AgentID {
		t.Errorf("pending: %v", n.PendingChildren)
	}
	done()
	all := w.hears(p.AgentID, 2)
	if len(all) != 1 || len(all[0]) != 2 || all[0][0].Sequence != 1 || len(all[0][0].PendingChildren) != 1 || len(all[0][1].PendingChildren) != 0 {
		t.Errorf("heard %+v", all)
	}
	if n := len(w.letters(c.AgentID)); n != 1 {
		t.Errorf("the child was told %d times", n)
	}
}

// It does not wait for ever.
func TestCallbackHoldEnds(t *testing.T) {
	w := quick(t, func(c *agent.Config) { c.CallbackHold = time.Millisecond })
	p := w.run(agent.RunRequest{})
	c := w.child(p.AgentID)
	w.busy(w.child(c.AgentID).AgentID)
	w.says(c.AgentID, "started one")
	if all := w.hears(p.AgentID, 1); len(all[0][0].PendingChildren) != 1 {
		t.Errorf("heard %+v", all)
	}
}

// It waits no longer for a child that ends without a word.
func TestCallbackHoldEndsWithChildren(t *testing.T) {
	w := quick(t)
	p := w.run(agent.RunRequest{})
	c := w.child(p.AgentID)
	g := w.child(c.AgentID)
	w.busy(g.AgentID)
	w.says(c.AgentID, "started one")
	_, err := w.sup.Rip(t.Context(), w.as(c.AgentID), g.AgentID, false)
	must(t, err)
	w.hears(p.AgentID, 1)
}

// Two agents that keep each other going stop at the limit, until a client speaks to
// the child, its target, or one above it.
func TestCallbackLimit(t *testing.T) {
	const most = 2
	w := quick(t, func(c *agent.Config) { c.Limits.Callbacks = most })
	top := w.run(agent.RunRequest{})
	p := w.child(top.AgentID)
	c := w.child(p.AgentID)
	var told int
	for name, id := range map[string]string{"the child": c.AgentID, "its target": p.AgentID, "one above": top.AgentID} {
		for n := range most {
			w.saysTo(w.as(p.AgentID), c.AgentID, "and you?")
			w.hears(p.AgentID, told+n+1)
		}
		w.saysTo(w.as(p.AgentID), c.AgentID, "and you?")
		i := w.info(c.AgentID)
		if i.Callback.Error == nil || !strings.Contains(*i.Callback.Error, "--max-callbacks") || i.Callback.NotifiedSeq != i.Callback.SettleCount-1 {
			t.Errorf("%s: not held: %+v", name, i.Callback)
		}
		if due := w.due(p.AgentID); len(due) > 0 {
			t.Errorf("%s: due all the same: %v", name, due)
		}
		w.send(id, "go on") // to the child: one more end
		told = int(i.Callback.SettleCount)
		w.hears(p.AgentID, told)
		if id == c.AgentID {
			w.hears(p.AgentID, told+1)
			told++
		}
		w.until(c.AgentID, "the end of the hold", func(i agent.Info) bool { return i.Callback.Error == nil })
		must(t, w.db.Asked(t.Context(), c.AgentID, "")) // a new count for the next
		w.untilState(p.AgentID, agent.Idle)
	}
}

// What an agent waits for is not told beside. What a wait returned counts as told at
// the end of the turn, unless that is aborted.
func TestCoveredCallback(t *testing.T) {
	for name, aborted := range map[string]bool{"settled": false, "aborted": true} {
		t.Run(name, func(t *testing.T) {
			w := quick(t)
			p := w.run(agent.RunRequest{})
			c, other := w.child(p.AgentID), w.child(p.AgentID)
			done := w.busy(p.AgentID)
			ids := []string{c.AgentID}
			agent.Cover(w.sup, p.AgentID, ids)
			agent.Cover(w.sup, p.AgentID, ids) // a second wait
			w.says(c.AgentID, "waited for")
			w.says(other.AgentID, "the control")
			w.sentUnread(p.AgentID, 1)
			agent.Uncover(w.sup, p.AgentID, ids, map[string]int64{c.AgentID: 1})
			agent.Uncover(w.sup, p.AgentID, ids, nil) // it timed out
			w.says(c.AgentID, "after it")
			if cb := w.callback(c.AgentID); cb.NotifiedSeq != 0 || cb.LastSeq != 2 {
				t.Errorf("before the end of the turn: %+v", cb)
			}
			if aborted {
				_, err := w.sup.Abort(t.Context(), w.who, p.AgentID, true)
				must(t, err)
			} else {
				done()
			}
			var heard string
			for _, l := range w.hears(p.AgentID, map[bool]int{false: 2, true: 3}[aborted]) {
				for _, n := range l {
					heard += *n.LastAssistantText + ", "
				}
			}
			if strings.Contains(heard, "waited for") != aborted || !strings.Contains(heard, "after it") || !strings.Contains(heard, "the control") {
				t.Errorf("heard %s", heard)
			}
			if cb := w.callback(c.AgentID); cb.NotifiedSeq != 2 {
				t.Errorf("after: %+v", cb)
			}
		})
	}
}

// While a wait is on nothing of it is told, and one that returned nothing lets it be.
func TestUncovered(t *testing.T) {
	w := newWorld(t)
	p := w.run(agent.RunRequest{})
	c := w.child(p.AgentID)
	agent.Cover(w.sup, p.AgentID, []string{c.AgentID})
	w.says(c.AgentID, "covered")
	agent.Cover(w.sup, p.AgentID, nil) // the loop has looked by now
	if all := w.letters(p.AgentID); len(all) > 0 || len(w.owed(p.AgentID)) != 1 {
		t.Errorf("told: %v", all)
	}
	agent.Uncover(w.sup, p.AgentID, []string{c.AgentID}, nil)
	w.hears(p.AgentID, 1)
}

// A server that died in the middle of a run owes its end to who waits for it.
func TestF13LostCallback(t *testing.T) {
	w := newWorld(t)
	p := w.run(agent.RunRequest{})
	c, resting := w.child(p.AgentID), w.child(p.AgentID)
	w.sup.Close()
	for id, state := range map[string]string{p.AgentID: "active", c.AgentID: "active", resting.AgentID: "idle"} {
		row := w.row(id)
		row.State, row.Living, row.Owner = state, true, "00000000-0000-4000-8000-000000000000"
		must(t, w.db.Save(t.Context(), row))
	}
	must(t, w.db.Close())
	w.open()
	if i := w.info(c.AgentID); i.State != agent.Exited || i.Callback.SettleCount != 1 {
		t.Errorf("the child: %+v", i)
	}
	w.resurrect(p.AgentID)
	all := w.hears(p.AgentID, 1)
	if n := all[0][0]; len(all[0]) != 1 || n.AgentID != c.AgentID || n.Why != "exited" || n.LastError == nil || !strings.Contains(*n.LastError, "died") {
		t.Errorf("heard %+v", all)
	}
}
