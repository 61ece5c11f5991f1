package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"pi-mcp/agent"
	"pi-mcp/store"
)

// A run settles before the wait, during it, or after one that timed out; the wait
// is for one of two agents or for both; and it knows their settle counts or not.
func TestWait(t *testing.T) {
	w := newWorld(t)
	ids := []string{w.run(agent.RunRequest{}).AgentID, w.run(agent.RunRequest{}).AgentID}
	n := int64(0) // settles of each so far
	for _, until := range []agent.Until{agent.Any, agent.All} {
		for _, known := range []bool{false, true} {
			for _, when := range []string{"before", "during", "after"} {
				t.Run(fmt.Sprintf("%s known %v %s", until, known, when), func(t *testing.T) {
					w.t = t
					req := agent.WaitRequest{IDs: ids, Until: until}
					if known {
						req.After = map[string]int64{ids[0]: n, ids[1]: n}
					}
					n++
					w.waitOnce(req, when, n)
				})
			}
		}
	}
}

// waitOnce has both agents of req make their n-th turn and waits as req says.
func (w *world) waitOnce(req agent.WaitRequest, when string, n int64) {
	w.t.Helper()
	release := []func(){w.hold(req.IDs[0], n), w.hold(req.IDs[1], n)}
	left := release[1] // an any does not need it
	end := func() {
		release[0]()
		w.settled(req.IDs[0], n)
		if req.Until == agent.All {
			left()
			left = func() {}
		}
	}
	var res agent.WaitResult
	switch when {
	case "before":
		end()
		if req.Until == agent.All {
			w.settled(req.IDs[1], n)
		}
		res = w.wait(req)
	case "during":
		got := w.waiting(req)
		end()
		res = got()
	case "after":
		res = w.wait(req)
		if res.Done || !res.TimedOut || res.Agents[0].State != agent.Active || res.Agents[1].SettleCount != n-1 {
			w.t.Errorf("before the settle: %+v", res)
		}
		end()
		req.Timeout = time.Hour
		res = w.wait(req)
	}
	if !res.Done || res.TimedOut || len(res.Agents) != 2 {
		w.t.Errorf("the wait ends with %+v", res)
	}
	for i, a := range res.Agents {
		ended := i == 0 || req.Until == agent.All
		text := ""
		if a.LastAssistantText != nil {
			text = *a.LastAssistantText
		}
		if a.ID != req.IDs[i] || ended && (a.State != agent.Idle || a.SettleCount != n || text != fmt.Sprint("turn ", n)) ||
			!ended && (a.State != agent.Active || a.SettleCount != n-1) {
			w.t.Errorf("agent %d after turn %d, until %s: %+v with %q", i, n, req.Until, a, text)
		}
	}
	left()
	w.settled(req.IDs[1], n)
	w.nobodyWaits()
}

// hold begins an agent's n-th turn, which ends when the function is called.
func (w *world) hold(id string, n int64) (release func()) {
	w.t.Helper()
	w.send(id, act(do("turn", fmt.Sprint("turn ", n), "hold", fmt.Sprint("/tmp/go", n))))
	w.untilState(id, agent.Active)
	return func() {
		must(w.t, os.WriteFile(filepath.Join(w.files.Paths(id).Tmp, fmt.Sprint("go", n)), nil, 0o600))
	}
}

// wait waits, or ends the test.
func (w *world) wait(req agent.WaitRequest) agent.WaitResult {
	w.t.Helper()
	res, err := w.sup.Wait(w.t.Context(), w.who, req)
	must(w.t, err)
	return res
}

// waiting begins a long wait, and returns when it has looked and now waits, or is
// over. got is its result.
func (w *world) waiting(req agent.WaitRequest) (got func() agent.WaitResult) {
	w.t.Helper()
	end := w.waitingUnder(w.t.Context(), req)
	return func() agent.WaitResult {
		w.t.Helper()
		res, err := end()
		must(w.t, err)
		return res
	}
}

func (w *world) waitingUnder(ctx context.Context, req agent.WaitRequest) (end func() (agent.WaitResult, error)) {
	w.t.Helper()
	req.Timeout = time.Hour
	beat, told := make(chan time.Time), make(chan struct{})
	if req.Beat == nil {
		req.Beat, req.Tell = beat, func(int, int) { close(told) }
	}
	var res agent.WaitResult
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		res, err = w.sup.Wait(ctx, w.who, req)
	}()
	if req.Beat == beat {
		select {
		case beat <- time.Time{}:
			<-told
		case <-ended:
		}
	}
	return func() (agent.WaitResult, error) {
		<-ended
		return res, err
	}
}

// nobodyWaits fails when a wait has left something.
func (w *world) nobodyWaits() {
	w.t.Helper()
	if n := w.sup.Waiting(); n > 0 {
		w.t.Errorf("%d agents are still waited for", n)
	}
}

// An agent that is no longer alive satisfies, with its count or without.
func TestWaitForTheEnd(t *testing.T) {
	w := newWorld(t)
	for _, known := range []bool{false, true} {
		for name, c := range map[string]struct {
			end  func(id string)
			want agent.State
		}{
			"rip":    {func(id string) { w.rip(id) }, agent.Ripped},
			"exit":   {func(id string) { w.send(id, act(do("exit", 3))) }, agent.Exited},
			"remove": {w.remove, "removed"},
		} {
			id := w.run(agent.RunRequest{}).AgentID
			req := agent.WaitRequest{IDs: []string{id}}
			if known {
				req.After = map[string]int64{id: 0}
			}
			if name != "exit" { // which is the turn
				w.hold(id, 1)
			}
			if known || name != "exit" { // idle, it would satisfy already
				got := w.waiting(req)
				c.end(id)
				res := got()
				a := res.Agents[0]
				if !res.Done || a.State != c.want || a.SettleCount != 0 || (a.LastError != nil) != (name == "exit") {
					t.Errorf("%s, known %v: %+v", name, known, res)
				}
				w.nobodyWaits()
			}
			if name != "remove" {
				w.remove(id)
			}
		}
	}
	w.empty()
}

// A stopped agent satisfies only for as long as it is: one that lives again by the
// time that the other is done is waited for, too. One that is removed meanwhile is
// shown so.
func TestWaitForTheResurrected(t *testing.T) {
	w := newWorld(t)
	stopped, other := w.run(agent.RunRequest{}).AgentID, w.run(agent.RunRequest{}).AgentID
	gone := w.run(agent.RunRequest{}).AgentID
	w.rip(stopped)
	w.rip(gone)
	release := w.hold(other, 1)
	got := w.waiting(agent.WaitRequest{IDs: []string{stopped, gone, other}, Until: agent.All})
	prompt := act(do("turn", "again", "hold", "/tmp/go2"))
	_, err := w.sup.Resurrect(t.Context(), w.who, stopped, &prompt)
	must(t, err)
	w.remove(gone)
	release()
	w.settled(other, 1)
	must(t, os.WriteFile(filepath.Join(w.files.Paths(stopped).Tmp, "go2"), nil, 0o600))
	res := got()
	if a := res.Agents; !res.Done || a[0].State != agent.Idle || a[0].SettleCount != 1 || a[1].State != "removed" || a[2].State != agent.Idle {
		t.Errorf("%+v", res)
	}
	w.nobodyWaits()
}

// A start is active until it is over, one way or the other.
func TestWaitForAStart(t *testing.T) {
	w := newWorld(t)
	w.script("slow", map[string]any{"on": map[string]any{"get_state": []any{do("wait_file", "/tmp/go"), do("default", true)}}})
	w.script("dies", map[string]any{"on": map[string]any{"get_state": []any{do("wait_file", "/tmp/go"), do("exit", 1)}}})
	for model, want := range map[string]agent.State{"slow": agent.Idle, "dies": "removed"} {
		ran := make(chan error, 1)
		go func() {
			_, err := w.sup.Run(t.Context(), w.who, agent.RunRequest{Model: model})
			ran <- err
		}()
		id := ""
		eventually(t, func() bool {
			rows, _, err := w.db.List(t.Context(), store.Query{Group: w.who.Group, States: []string{"starting"}})
			must(t, err)
			if len(rows) == 1 && rows[0].PID != 0 {
				id = rows[0].ID
			}
			return id != ""
		}, func() string { return "no start was seen" })
		got := w.waiting(agent.WaitRequest{IDs: []string{id}})
		must(t, os.WriteFile(filepath.Join(w.files.Paths(id).Tmp, "go"), nil, 0o600))
		if res := got(); !res.Done || res.Agents[0].State != want {
			t.Errorf("%s: %+v", model, res)
		}
		if err := <-ran; (err == nil) != (want == agent.Idle) {
			t.Errorf("%s: %v", model, err)
		}
		w.nobodyWaits()
	}
}

// Who gives up, and a server that stops, end the wait and nothing else.
func TestWaitIsGivenUp(t *testing.T) {
	w := newWorld(t)
	id := w.run(agent.RunRequest{}).AgentID
	release := w.hold(id, 1)
	ctx, cancel := context.WithCancel(t.Context())
	end := w.waitingUnder(ctx, agent.WaitRequest{IDs: []string{id}})
	before := w.row(id)
	cancel()
	if _, err := end(); !errors.Is(err, context.Canceled) {
		t.Errorf("after the caller went: %v", err)
	}
	w.nobodyWaits()
	if now := w.row(id); now.State != "active" || now.Updated != before.Updated {
		t.Errorf("the agent is %+v", now)
	}
	release()
	w.settled(id, 1)
	if res := w.wait(agent.WaitRequest{IDs: []string{id}, After: map[string]int64{id: 0}}); !res.Done || *res.Agents[0].LastAssistantText != "turn 1" {
		t.Errorf("a second call: %+v", res)
	}

	w.hold(id, 2)
	end = w.waitingUnder(t.Context(), agent.WaitRequest{IDs: []string{id}, After: map[string]int64{id: 9}})
	w.sup.Close()
	if res, err := end(); !errors.Is(err, agent.ErrStopping) && (err != nil || res.Agents[0].State != agent.Exited) {
		t.Errorf("after the stop: %+v, %v", res, err)
	}
	w.nobodyWaits()
	if _, err := w.sup.Wait(t.Context(), w.who, agent.WaitRequest{IDs: []string{id}}); !errors.Is(err, agent.ErrStopping) {
		t.Errorf("a wait after the end: %v", err)
	}
}

// An agent of another server is looked at, and one whose server has died is taken
// over.
func TestWaitForAnothersAgent(t *testing.T) {
	w := newWorld(t)
	id := w.run(agent.RunRequest{}).AgentID
	other := *w
	other.open()
	release := w.hold(id, 1)
	got := other.waiting(agent.WaitRequest{IDs: []string{id}})
	if n := w.sup.Waiting(); n > 0 {
		t.Errorf("the wait is at the agent's own server: %d", n)
	}
	release()
	if res := got(); !res.Done || res.Agents[0].State != agent.Idle || *res.Agents[0].LastAssistantText != "turn 1" {
		t.Errorf("it settled: %+v", res)
	}
	w.rip(id)
	row := w.row(id)
	row.State, row.Living, row.Owner = "active", true, "00000000-0000-4000-8000-000000000000"
	must(t, w.db.Save(t.Context(), row))
	if res := w.wait(agent.WaitRequest{IDs: []string{id}}); !res.Done || res.Agents[0].State != agent.Exited {
		t.Errorf("its server died: %+v", res)
	}
	other.nobodyWaits()
}

// A stopped agent that another server brings back is that server's, and waited for
// all the same.
func TestWaitForAnAgentThatMoves(t *testing.T) {
	w := newWorld(t)
	moves, here := w.run(agent.RunRequest{}).AgentID, w.run(agent.RunRequest{}).AgentID
	w.rip(moves)
	other := *w
	other.open()
	releaseHere := w.hold(here, 1)
	got := w.waiting(agent.WaitRequest{IDs: []string{moves, here}, Until: agent.All})
	prompt := act(do("turn", "there", "hold", "/tmp/go1"))
	_, err := other.sup.Resurrect(t.Context(), w.who, moves, &prompt)
	must(t, err)
	releaseHere()
	w.settled(here, 1)
	must(t, os.WriteFile(filepath.Join(w.files.Paths(moves).Tmp, "go1"), nil, 0o600))
	if res := got(); !res.Done || res.Agents[0].State != agent.Idle || res.Agents[0].SettleCount != 1 {
		t.Errorf("%+v", res)
	}
}

func TestWaitRefuses(t *testing.T) {
	w := newWorld(t)
	id, foreign, none := newID(), newID(), newID()
	for _, row := range []store.Agent{{ID: id, Group: "default"}, {ID: foreign, Group: "other"}} {
		row.State = "ripped"
		must(t, w.db.Insert(t.Context(), row, 0))
	}
	many := make([]string, 257)
	for i := range many {
		many[i] = newID()
	}
	for arg, all := range map[string][]agent.WaitRequest{
		"agent_ids":       {{}, {IDs: many}, {IDs: []string{id, none}}, {IDs: []string{foreign}}, {IDs: []string{"../x"}}, {IDs: []string{""}}},
		"after":           {{IDs: []string{id}, After: map[string]int64{none: 1}}, {IDs: []string{id}, After: map[string]int64{id: -1}}},
		"until":           {{IDs: []string{id}, Until: "some"}},
		"timeout_seconds": {{IDs: []string{id}, Timeout: -time.Second}, {IDs: []string{id}, Timeout: time.Hour + 1}},
	} {
		for _, req := range all {
			_, err := w.sup.Wait(t.Context(), w.who, req)
			if e, ok := errors.AsType[*agent.ArgError](err); !ok || e.Arg != arg || len(e.Reason) > 300 {
				t.Errorf("%s: %v", arg, err)
			}
			w.nobodyWaits()
		}
	}
	if res := w.wait(agent.WaitRequest{IDs: []string{id, id, id}}); !res.Done || len(res.Agents) != 1 || res.Agents[0].State != agent.Ripped {
		t.Errorf("the control: %+v", res)
	}
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// An agent waits neither for itself nor for one that is waiting for it, but for
// any other, and a client for all of them.
func TestWaitForOneself(t *testing.T) {
	w := newWorld(t)
	parent := ""
	line, rows := make([]string, 4), make([]store.Agent, 4) // from the first to the youngest
	for depth := range line {
		line[depth] = newID()
		rows[depth] = store.Agent{ID: line[depth], Group: "default", State: "ripped", Parent: parent, Depth: depth,
			Ancestors: slices.Clone(line[:depth]), Living: true}
		must(t, w.db.Insert(t.Context(), rows[depth], 64)) // below one that lives
		parent = line[depth]
	}
	for _, row := range rows {
		row.Living = false
		must(t, w.db.Save(t.Context(), row))
	}
	caller := agent.Caller{Group: "default", Agent: line[2]}
	for i, id := range line {
		_, err := w.sup.Wait(t.Context(), caller, agent.WaitRequest{IDs: []string{line[3], id}})
		e, refused := errors.AsType[*agent.ArgError](err)
		if refused != (i < 3) || refused && (e.Arg != "agent_ids" || !strings.Contains(e.Reason, "leave that id out")) {
			t.Errorf("for number %d: %v", i, err)
		}
	}
	if res := w.wait(agent.WaitRequest{IDs: line}); !res.Done {
		t.Errorf("a client: %+v", res)
	}
	must(t, w.db.Delete(t.Context(), line[1])) // which changes nothing for those below
	if _, err := w.sup.Wait(t.Context(), caller, agent.WaitRequest{IDs: line[3:]}); err != nil {
		t.Errorf("with an ancestor removed: %v", err)
	}
}

// Who waits is told how many there are already, at every beat.
func TestWaitTells(t *testing.T) {
	w := newWorld(t)
	idle, busy := w.run(agent.RunRequest{}).AgentID, w.run(agent.RunRequest{}).AgentID
	release := w.hold(busy, 1)
	beat, told := make(chan time.Time), make(chan [2]int)
	got := w.waiting(agent.WaitRequest{IDs: []string{idle, busy}, Until: agent.All, Beat: beat, Tell: func(n, all int) { told <- [2]int{n, all} }})
	for range 3 {
		beat <- time.Time{}
		if n := <-told; n != [2]int{1, 2} {
			t.Errorf("told %v", n)
		}
	}
	release()
	if res := got(); !res.Done {
		t.Errorf("%+v", res)
	}
}

// A long text is cut between two characters, and its length told.
func TestWaitCutsTheText(t *testing.T) {
	w := newWorld(t)
	id, text := newID(), "x"+strings.Repeat("ä", 30_000)
	must(t, w.db.Insert(t.Context(), store.Agent{ID: id, Group: "default", State: "ripped", LastText: &text, LastTextBytes: 99_999}, 0))
	a := w.wait(agent.WaitRequest{IDs: []string{id}}).Agents[0]
	if got := *a.LastAssistantText; len(got) != 8191 || !strings.HasPrefix(text, got) || a.LastAssistantTextBytes != 99_999 {
		t.Errorf("%d bytes of %d: %q", len(got), a.LastAssistantTextBytes, got[max(0, len(got)-5):])
	}
}

// Callers come and go while agents settle: what each of them gets is one state of
// one agent, and in the end there is nobody.
func TestWaitersComeAndGo(t *testing.T) {
	w := newWorld(t)
	ids := []string{w.run(agent.RunRequest{}).AgentID, w.run(agent.RunRequest{}).AgentID}
	ends := make(chan func() (agent.WaitResult, error), 8)
	for n := range int64(3) {
		for i := range 4 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ends <- w.waitingUnder(ctx, agent.WaitRequest{IDs: slices.Clone(ids[i%2:]), Until: agent.All, After: map[string]int64{ids[1]: n}})
			if i == 3 {
				cancel()
			}
		}
		for _, id := range ids {
			w.send(id, act(do("turn", fmt.Sprint("turn ", n+1))))
		}
		for i := range 4 {
			res, err := (<-ends)()
			if i == 3 && errors.Is(err, context.Canceled) {
				continue
			}
			must(t, err)
			if a := res.Agents[len(res.Agents)-1]; !res.Done || a.SettleCount != n+1 || *a.LastAssistantText != fmt.Sprint("turn ", n+1) {
				t.Errorf("round %d, wait %d: %+v", n, i, res)
			}
		}
		w.nobodyWaits()
	}
}
