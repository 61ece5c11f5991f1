package agent_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"pi-mcp/agent"
	"pi-mcp/artifacts"
	"pi-mcp/store"
)

// token is one that an agent may choose.
func token(n int) string { return fmt.Sprintf("a-token-that-an-agent-has-made-up-%d", n) }

// kin are agents around one, which is self.
type kin struct {
	parent, self, child, grandchild, sibling, strange string
	foreign                                           string // a child in a group of its own
	foreignGroup                                      string
}

func (w *world) kin() kin {
	w.t.Helper()
	must2 := func(r agent.RunResult, err error) string { w.t.Helper(); must(w.t, err); return r.AgentID }
	ctx := w.t.Context()
	k := kin{parent: w.run(agent.RunRequest{}).AgentID, strange: w.run(agent.RunRequest{}).AgentID}
	k.self = must2(w.sup.Run(ctx, w.as(k.parent), agent.RunRequest{}))
	k.sibling = must2(w.sup.Run(ctx, w.as(k.parent), agent.RunRequest{}))
	k.child = must2(w.sup.Run(ctx, w.as(k.self), agent.RunRequest{}))
	k.grandchild = must2(w.sup.Run(ctx, w.as(k.child), agent.RunRequest{}))
	k.foreign = must2(w.sup.Run(ctx, w.as(k.self), agent.RunRequest{AccessToken: token(1)}))
	k.foreignGroup = w.row(k.foreign).Group
	return k
}

// What a caller gets from each method of each agent: "" is success, "own" the refusal
// of what one may not do to oneself, "none" that there is no such agent.
func TestWhoMayDoWhat(t *testing.T) {
	for _, scope := range []bool{false, true} {
		t.Run(fmt.Sprintf("group scope %v", scope), func(t *testing.T) {
			w := newWorld(t, func(c *agent.Config) { c.GroupScope = scope; c.Limits.Depth = 4 })
			k := w.kin()
			seen := map[bool]string{false: "none", true: ""}[scope]
			for _, tc := range []struct {
				name       string
				who        agent.Caller
				id         string
				read, acts string
			}{
				{"itself", w.as(k.self), k.self, "", "own"},
				{"a child", w.as(k.self), k.child, "", ""},
				{"a grandchild", w.as(k.self), k.grandchild, "", ""},
				{"its parent", w.as(k.self), k.parent, seen, "none"},
				{"a sibling", w.as(k.self), k.sibling, seen, "none"},
				{"a stranger", w.as(k.self), k.strange, seen, "none"},
				{"a child in another group", w.as(k.self), k.foreign, "none", "none"},
				{"a parent in another group", agent.Caller{Group: k.foreignGroup, Agent: k.foreign}, k.self, "none", "none"},
				{"one that never was", w.as(k.self), "01a1964b-2c01-70a5-b520-78f933cdafad", "none", "none"},
				{"a client its own", w.who, k.self, "", ""},
				{"a client another group's", agent.Caller{Group: "other"}, k.self, "none", "none"},
				{"a client the foreign child", agent.Caller{Group: k.foreignGroup}, k.foreign, "", ""},
			} {
				w.tries(tc.name, tc.who, tc.id, tc.read, tc.acts)
			}
			w.lists(k, scope)
		})
	}
}

// tries calls every method that takes an agent, and compares.
func (w *world) tries(name string, who agent.Caller, id, read, acts string) {
	w.t.Helper()
	ctx, s := w.t.Context(), w.sup
	check := func(method, want string, err error) {
		got := ""
		_, own := errors.AsType[*agent.ArgError](err)
		switch {
		case errors.Is(err, agent.ErrNotFound):
			got = "none"
		case own && strings.Contains(err.Error(), "is your own"):
			got = "own"
		case err != nil:
			got = err.Error()
		}
		if got != want {
			w.t.Errorf("%s of %s: %q, not %q", method, name, got, want)
		}
	}
	_, err := s.Info(ctx, who, id)
	check("Info", read, err)
	_, err = s.Read(ctx, who, id, artifacts.Stdout, artifacts.Range{})
	check("Read", read, err)
	_, err = s.Grep(ctx, who, id, artifacts.Stdout, []string{"x"})
	check("Grep", read, err)
	_, err = s.ListTmp(ctx, who, id, "", true, 10)
	check("ListTmp", read, err)
	if read != "" { // else there must be a file
		_, err = s.ReadTmp(ctx, who, id, "file", artifacts.Range{})
		check("ReadTmp", read, err)
	} else {
		must(w.t, os.WriteFile(w.files.Paths(id).Tmp+"/file", []byte("x\n"), 0o600))
		_, err = s.ReadTmp(ctx, who, id, "file", artifacts.Range{})
		check("ReadTmp", read, err)
	}
	_, err = s.GrepTmp(ctx, who, id, []string{"x"}, "", "")
	check("GrepTmp", read, err)

	_, err = s.Send(ctx, who, id, "hello", agent.FollowUp, false)
	check("Send", acts, err)
	_, err = s.Send(ctx, who, id, "hello", agent.Steer, true)
	check("Send with resurrect", acts, err)
	_, err = s.Abort(ctx, who, id, true)
	check("Abort", acts, err)
	_, err = s.Rip(ctx, who, id, false)
	check("Rip", acts, err)
	_, err = s.Resurrect(ctx, who, id, nil)
	check("Resurrect", acts, err)
	for _, descendants := range []bool{false, true} {
		if acts != "" { // success would end the table
			_, err = s.Rip(ctx, who, id, descendants)
			check("Rip with descendants", acts, err)
			_, err = s.Remove(ctx, who, id, descendants)
			check("Remove", acts, err)
		}
	}
}

// lists compares what an agent gets from List.
func (w *world) lists(k kin, scope bool) {
	w.t.Helper()
	res, err := w.sup.List(w.t.Context(), w.as(k.self), agent.ListRequest{})
	must(w.t, err)
	ids := map[string]bool{}
	for _, a := range res.Agents {
		ids[a.AgentID] = true
	}
	for id, want := range map[string]bool{
		k.self: true, k.child: true, k.grandchild: true, k.parent: scope, k.sibling: scope, k.strange: scope, k.foreign: false,
	} {
		if ids[id] != want {
			w.t.Errorf("List has %s: %v", id, ids[id])
		}
	}
	if res.Total != len(ids) {
		w.t.Errorf("%d in all, %d listed", res.Total, len(ids))
	}
	if i, err := w.sup.Info(w.t.Context(), w.as(k.self), k.self); err != nil || len(i.Children) != 1 || i.Children[0] != k.child || i.Depth != 1 || *i.ParentAgentID != k.parent {
		w.t.Errorf("of itself: %+v, %v", i, err)
	}
}

// An agent removes and removes only what is below it.
func TestRemoveOwnChild(t *testing.T) {
	w := newWorld(t)
	k := w.kin()
	res, err := w.sup.Remove(t.Context(), w.as(k.self), k.child, true)
	must(t, err)
	if res.Descendants != 1 {
		t.Errorf("removed: %+v", res)
	}
	if _, err := w.db.Any(t.Context(), k.grandchild); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the grandchild: %v", err)
	}
	w.info(k.self) // the control
}

// Whom an agent may have told: for a client its group; for an agent itself, what is
// below it and what is above, be that in another group.
func TestCallbackTargets(t *testing.T) {
	w := newWorld(t, func(c *agent.Config) { c.Limits.Depth = 9 })
	k := w.kin()
	foreign := agent.Caller{Group: k.foreignGroup, Agent: k.foreign}
	tombstone := w.run(agent.RunRequest{}).AgentID
	w.rip(tombstone)
	must(t, w.db.Tombstone(t.Context(), tombstone))
	for _, tc := range []struct {
		name string
		who  agent.Caller
		id   string
		good bool
	}{
		{"a client one of its group", w.who, k.child, true},
		{"a client one of another group", w.who, k.foreign, false},
		{"a client one that is being removed", w.who, tombstone, false},
		{"itself", w.as(k.self), k.self, true},
		{"a child", w.as(k.self), k.child, true},
		{"a grandchild", w.as(k.self), k.grandchild, true},
		{"its parent", w.as(k.self), k.parent, true},
		{"its grandparent", w.as(k.child), k.parent, true},
		{"a sibling", w.as(k.self), k.sibling, false},
		{"a stranger", w.as(k.self), k.strange, false},
		{"a child that it put out of its sight", w.as(k.self), k.foreign, false},
		{"itself, in another group", foreign, k.foreign, true},
		{"its parent in another group", foreign, k.self, true},
		{"its grandparent in another group", foreign, k.parent, true},
		{"a parent's child in another group", foreign, k.child, false},
		{"one that never was", w.as(k.self), "01a1964b-2c01-70a5-b520-78f933cdafad", false},
	} {
		before := w.rows()
		res, err := w.sup.Run(t.Context(), tc.who, agent.RunRequest{Callback: tc.id})
		switch {
		case tc.good && err != nil:
			t.Errorf("%s: %v", tc.name, err)
		case tc.good:
			_, err := w.sup.Remove(t.Context(), agent.Caller{Group: w.row(res.AgentID).Group}, res.AgentID, false)
			must(t, err)
		default:
			wantArg(t, err, "callback_agent_id", "no such agent")
			if after := w.rows(); after != before {
				t.Errorf("%s: %d rows before, %d after", tc.name, before, after)
			}
		}
	}
}

// News cross groups: an agent hears of a child that it cannot see.
func TestCallbackAcrossGroups(t *testing.T) {
	w := newWorld(t)
	p := w.run(agent.RunRequest{})
	c := w.child(p.AgentID, agent.RunRequest{AccessToken: token(1)})
	who := agent.Caller{Group: w.row(c.AgentID).Group}
	w.saysTo(who, c.AgentID, "from afar")
	if n := w.hears(p.AgentID, 1)[0][0]; n.AgentID != c.AgentID || *n.LastAssistantText != "from afar" {
		t.Errorf("heard %+v", n)
	}
	if _, err := w.sup.Info(t.Context(), w.as(p.AgentID), c.AgentID); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("it sees the child: %v", err)
	}
}

// rows counts all agents and groups there are, and their directories.
func (w *world) rows() int {
	w.t.Helper()
	n := 0
	for _, table := range []string{"agents", "groups"} {
		n += w.count(table)
	}
	entries, err := os.ReadDir(w.cfg.Artifacts.Root())
	must(w.t, err)
	return n + len(entries)
}

// Depth, descendants and the group's limit hold for agents that agents start, in
// whatever group; what is refused leaves nothing, and a start that fails is given back.
func TestF18ChildLimits(t *testing.T) {
	limit := func(t *testing.T, w *world, who agent.Caller, name string, req agent.RunRequest) {
		t.Helper()
		before := w.rows()
		_, err := w.sup.Run(t.Context(), who, req)
		if e, ok := errors.AsType[*agent.LimitError](err); !ok || e.Name != name {
			t.Errorf("not the limit %s: %v", name, err)
		}
		if after := w.rows(); after != before {
			t.Errorf("%d things before, %d after", before, after)
		}
	}
	t.Run("depth", func(t *testing.T) {
		w := newWorld(t, func(c *agent.Config) { c.Limits.Depth = 2 })
		a := w.run(agent.RunRequest{})
		b := w.child(a.AgentID)
		c := w.child(b.AgentID, agent.RunRequest{AccessToken: token(1)})
		if c.Depth != 2 {
			t.Errorf("depth %d", c.Depth)
		}
		limit(t, w, agent.Caller{Group: w.row(c.AgentID).Group, Agent: c.AgentID}, "max-depth", agent.RunRequest{AccessToken: token(2)})
	})
	t.Run("descendants", func(t *testing.T) {
		w := newWorld(t, func(c *agent.Config) { c.Limits.Descendants = 3 })
		w.script("dies", map[string]any{"start": []any{do("exit", 1)}})
		a := w.run(agent.RunRequest{})
		b := w.child(a.AgentID)
		for range 5 {
			if _, err := w.sup.Run(t.Context(), w.as(b.AgentID), agent.RunRequest{Model: "dies"}); err == nil {
				t.Error("a pi that dies was started")
			}
		}
		w.remove(w.child(b.AgentID).AgentID) // counts for life
		c := w.child(b.AgentID, agent.RunRequest{AccessToken: token(1)})
		limit(t, w, w.as(b.AgentID), "max-descendants", agent.RunRequest{})
		limit(t, w, agent.Caller{Group: w.row(c.AgentID).Group, Agent: c.AgentID}, "max-descendants", agent.RunRequest{})
		limit(t, w, w.as(a.AgentID), "max-descendants", agent.RunRequest{})
		w.run(agent.RunRequest{}) // the control: a client's
	})
	t.Run("group", func(t *testing.T) {
		w := newWorld(t, func(c *agent.Config) { c.Limits.GroupAgents = 3 })
		a := w.run(agent.RunRequest{})
		b := w.child(a.AgentID, agent.RunRequest{AccessToken: token(1)})
		far := agent.Caller{Group: w.row(b.AgentID).Group, Agent: b.AgentID}
		c, err := w.sup.Run(t.Context(), far, agent.RunRequest{AccessToken: token(2)})
		must(t, err)
		limit(t, w, w.as(a.AgentID), "max-group-agents", agent.RunRequest{AccessToken: token(3)})
		limit(t, w, far, "max-group-agents", agent.RunRequest{})
		limit(t, w, w.who, "max-group-agents", agent.RunRequest{})
		_, err = w.sup.Rip(t.Context(), agent.Caller{Group: w.row(c.AgentID).Group}, c.AgentID, false)
		must(t, err)
		_, err = w.sup.Run(t.Context(), far, agent.RunRequest{})
		must(t, err) // the control
	})
}

// An agent's token must be long, and its group is marked as one that an agent made.
func TestChildToken(t *testing.T) {
	w := newWorld(t)
	a := w.run(agent.RunRequest{})
	before := w.rows()
	_, err := w.sup.Run(t.Context(), w.as(a.AgentID), agent.RunRequest{AccessToken: strings.Repeat("x", 31)})
	wantArg(t, err, "access_token", "32")
	if after := w.rows(); after != before {
		t.Errorf("%d things before, %d after", before, after)
	}
	for _, tc := range []struct {
		who     agent.Caller
		token   string
		byAgent bool
	}{{w.as(a.AgentID), strings.Repeat("x", 32), true}, {w.who, strings.Repeat("y", 8), false}} {
		res, err := w.sup.Run(t.Context(), tc.who, agent.RunRequest{AccessToken: tc.token})
		must(t, err)
		group := w.row(res.AgentID).Group
		if by, err := w.byAgent(tc.token); err != nil || by != tc.byAgent || group == w.who.Group {
			t.Errorf("group %s, made by an agent: %v, %v", group, by, err)
		}
	}
}

// rip and remove with descendants take all that is below, across groups, and what the
// stopped ones have to tell each other stays owed.
func TestDescendants(t *testing.T) {
	for _, remove := range []bool{false, true} {
		t.Run(fmt.Sprintf("remove %v", remove), func(t *testing.T) {
			w := newWorld(t)
			w.script("slow", map[string]any{"start": []any{do("hang", true)}})
			top := w.run(agent.RunRequest{})
			p := w.child(top.AgentID)
			c := w.child(p.AgentID, agent.RunRequest{AccessToken: token(1)})
			far := agent.Caller{Group: w.row(c.AgentID).Group, Agent: c.AgentID}
			g, err := w.sup.Run(t.Context(), far, agent.RunRequest{Callback: c.AgentID})
			must(t, err)
			w.busyAs(agent.Caller{Group: far.Group}, g.AgentID)
			failed := make(chan error, 1)
			go func() {
				_, err := w.sup.Run(context.WithoutCancel(t.Context()), w.as(p.AgentID), agent.RunRequest{Model: "slow"})
				failed <- err
			}()
			eventually(t, func() bool {
				all, err := w.db.Descendants(t.Context(), p.AgentID, true)
				must(t, err)
				return len(all) == 3
			},
				func() string { return "the slow one never began" })
			n := 0
			if remove {
				res, err := w.sup.Remove(t.Context(), w.as(top.AgentID), p.AgentID, true)
				must(t, err)
				n = res.Descendants
			} else {
				res, err := w.sup.Rip(t.Context(), w.as(top.AgentID), p.AgentID, true)
				must(t, err)
				n = res.Descendants
				if !res.Ripped || res.AlreadyRipped || res.State != agent.Ripped {
					t.Errorf("rip: %+v", res)
				}
			}
			if err := <-failed; err == nil || !strings.Contains(err.Error(), "stopped during start") {
				t.Errorf("the start under way: %v", err)
			}
			if left, err := w.db.Descendants(t.Context(), p.AgentID, true); err != nil || len(left) > 0 || n < 2 || n > 3 {
				t.Errorf("%d ended, left are %v, %v", n, left, err)
			}
			if i := w.info(top.AgentID); i.State != agent.Idle {
				t.Errorf("the control: the one above is %s", i.State)
			}
			owed := w.owed(c.AgentID)
			if (len(owed) == 1 && news(t, owed[0].Body).Why == "ripped") == remove {
				t.Errorf("owed: %v", owed)
			}
			if all, err := w.db.Descendants(t.Context(), p.AgentID, false); err != nil || (len(all) == 0) != remove {
				t.Errorf("rows left: %v, %v", all, err)
			}
		})
	}
}

// A rip with descendants and starts of the same agent at once: whichever is first,
// nothing lives below it afterwards.
func TestRipAgainstRunBelow(t *testing.T) {
	w := newWorld(t)
	for n := range 6 {
		p := w.run(agent.RunRequest{})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { _, _ = w.sup.Run(t.Context(), w.as(p.AgentID), agent.RunRequest{}) })
		}
		if n%2 == 0 { // else before any of them
			eventually(t, func() bool {
				ids, err := w.db.Descendants(t.Context(), p.AgentID, true)
				return err == nil && len(ids) > 0
			},
				func() string { return "none of them began" })
		}
		_, err := w.sup.Rip(t.Context(), w.who, p.AgentID, true)
		must(t, err)
		all.Wait()
		if left, err := w.db.Descendants(t.Context(), p.AgentID, true); err != nil || len(left) > 0 {
			t.Errorf("below the ripped agent live %v, %v", left, err)
		}
	}
}

// An agent that is stopped starts nothing any more, although its call has come in.
func TestStoppedStartsNothing(t *testing.T) {
	w := newWorld(t)
	p := w.run(agent.RunRequest{})
	w.rip(p.AgentID)
	before := w.rows()
	_, err := w.sup.Run(t.Context(), w.as(p.AgentID), agent.RunRequest{})
	if e, ok := errors.AsType[*agent.StateError](err); !ok || e.ID != p.AgentID {
		t.Errorf("run by a ripped agent: %v", err)
	}
	if after := w.rows(); after != before {
		t.Errorf("%d things before, %d after", before, after)
	}
	w.resurrect(p.AgentID)
	w.child(p.AgentID) // the control
}
