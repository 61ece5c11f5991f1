package agent_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"pi-mcp/agent"
)

// waits has an agent wait for the next end of each of some others, and returns when it
// does. got is what it returned.
func (w *world) waits(ctx context.Context, id string, ids ...string) (got func() (agent.WaitResult, error)) {
	w.t.Helper()
	req := agent.WaitRequest{IDs: ids, Until: agent.All, After: map[string]int64{}, Timeout: time.Hour}
	for _, id := range ids {
		req.After[id] = w.row(id).SettleCount
	}
	var res agent.WaitResult
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		res, err = w.sup.Wait(ctx, w.as(id), req)
	}()
	eventually(w.t, func() bool { return w.sup.Waiting() == len(ids) }, func() string { return "it never waits" })
	agent.Cover(w.sup, id, nil) // its loop knows by now
	return func() (agent.WaitResult, error) { <-ended; return res, err }
}

// What an agent's own wait returns is not told to it beside, and counts as told once
// the turn has settled. After an abort it is told: the session does not have it.
func TestOwnWaitTells(t *testing.T) {
	for name, aborted := range map[string]bool{"settled": false, "aborted": true} {
		t.Run(name, func(t *testing.T) {
			w := quick(t)
			p := w.run(agent.RunRequest{})
			one, two, other := w.child(p.AgentID), w.child(p.AgentID), w.child(p.AgentID)
			done := w.busy(p.AgentID)
			got := w.waits(t.Context(), p.AgentID, one.AgentID, two.AgentID)
			w.says(one.AgentID, "the first")
			w.says(other.AgentID, "the control")
			w.sentUnread(p.AgentID, 1)
			w.says(two.AgentID, "the second")
			res, err := got()
			if err != nil || !res.Done || *res.Agents[0].LastAssistantText != "the first" || *res.Agents[1].LastAssistantText != "the second" {
				t.Errorf("the wait: %+v, %v", res, err)
			}
			for _, c := range []agent.Info{one, two} {
				if cb := w.callback(c.AgentID); cb.NotifiedSeq != 0 || cb.LastSeq != 1 {
					t.Errorf("before the end of the turn: %+v", cb)
				}
			}
			news := 1
			if aborted {
				news = 3
				_, err := w.sup.Abort(t.Context(), w.who, p.AgentID, true)
				must(t, err)
			} else {
				done()
			}
			heard := 0
			for _, l := range w.hears(p.AgentID, news) {
				heard += len(l)
			}
			if heard != news {
				t.Errorf("heard %d news, not %d: %v", heard, news, w.letters(p.AgentID))
			}
			for _, c := range []agent.Info{one, two, other} {
				if cb := w.callback(c.AgentID); cb.NotifiedSeq != 1 {
					t.Errorf("after: %+v", cb)
				}
			}
		})
	}
}

// A wait that was given up, or whose time was up before the end, has told nothing: the
// agent hears of the end once, as if it had not waited.
func TestF17OwnWaitTellsNothing(t *testing.T) {
	for name, wait := range map[string]func(w *world, parent, child, other string){
		"given up": func(w *world, parent, child, other string) {
			ctx, cancel := context.WithCancel(w.t.Context())
			got := w.waits(ctx, parent, child, other)
			w.says(child, "done")
			cancel()
			if _, err := got(); !errors.Is(err, context.Canceled) {
				w.t.Errorf("the wait ends with %v", err)
			}
		},
		"timed out": func(w *world, parent, child, _ string) {
			req := agent.WaitRequest{IDs: []string{child}, After: map[string]int64{child: 0}, Timeout: time.Millisecond}
			if res, err := w.sup.Wait(w.t.Context(), w.as(parent), req); err != nil || !res.TimedOut {
				w.t.Errorf("the wait: %+v, %v", res, err)
			}
			w.says(child, "done")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := quick(t)
			p := w.run(agent.RunRequest{})
			c, other := w.child(p.AgentID), w.child(p.AgentID)
			done := w.busy(p.AgentID)
			wait(w, p.AgentID, c.AgentID, other.AgentID)
			w.sentUnread(p.AgentID, 1)
			done()
			if all := w.hears(p.AgentID, 1); len(all) != 1 || len(all[0]) != 1 || *all[0][0].LastAssistantText != "done" {
				t.Errorf("heard %+v", all)
			}
			if cb := w.callback(c.AgentID); cb.NotifiedSeq != 1 || cb.Error != nil {
				t.Errorf("after: %+v", cb)
			}
		})
	}
}
