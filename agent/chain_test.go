package agent_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"pi-mcp/agent"
)

// A child has its parent's provider and model; another provider, whose key its parent
// could then have read, is refused unless the server allows it.
func TestChildProvider(t *testing.T) {
	for _, anyProvider := range []bool{false, true} {
		t.Run(fmt.Sprint(anyProvider), func(t *testing.T) {
			w := newWorld(t, func(c *agent.Config) { c.AnyProvider = anyProvider })
			w.script("own", map[string]any{})
			p := w.run(agent.RunRequest{Model: "own"})
			same, err := w.sup.Run(t.Context(), w.as(p.AgentID), agent.RunRequest{})
			must(t, err)
			if same.Provider != p.Provider || same.Model != "own" {
				t.Errorf("by default a child has %s/%s", same.Provider, same.Model)
			}
			named, err := w.sup.Run(t.Context(), w.as(p.AgentID), agent.RunRequest{Provider: p.Provider, Model: "plain"})
			must(t, err)
			if named.Model != "plain" {
				t.Errorf("another model of the same provider: %s", named.Model)
			}
			rows := w.rows()
			other, err := w.sup.Run(t.Context(), w.as(p.AgentID), agent.RunRequest{Provider: "another", Model: "plain"})
			if anyProvider {
				must(t, err)
				if other.Provider != "another" {
					t.Errorf("allowed, and it has %s", other.Provider)
				}
				return
			}
			wantArg(t, err, "provider", "--child-provider")
			if after := w.rows(); after != rows {
				t.Errorf("%d things before the refusal, %d after", rows, after)
			}
		})
	}
}

// What an agent has heard through its wait works for it no more when its turn ends.
func TestHeardByWaitIsNotPending(t *testing.T) {
	w := newWorld(t)
	p := w.run(agent.RunRequest{})
	c := w.child(p.AgentID)
	g := w.child(c.AgentID)
	done := w.busy(c.AgentID)
	ids := []string{g.AgentID}
	agent.Cover(w.sup, c.AgentID, ids)
	w.says(g.AgentID, "result")
	agent.Uncover(w.sup, c.AgentID, ids, map[string]int64{g.AgentID: 1})
	done()
	if n := w.hears(p.AgentID, 1)[0][0]; n.AgentID != c.AgentID || len(n.PendingChildren) != 0 {
		t.Errorf("heard %+v", n)
	}
}

// A run that fails with its prompt has not been: nobody hears of an agent whose id
// nobody has, and it does not count.
func TestTakenBackIsNotTold(t *testing.T) {
	w := newWorld(t)
	w.script("slow", map[string]any{"on": map[string]any{"prompt": []any{do("wait_file", "/tmp/never")}}})
	p := w.run(agent.RunRequest{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := w.sup.Run(ctx, w.as(p.AgentID), agent.RunRequest{Model: "slow", Callback: p.AgentID, Prompt: new("hello")})
		ended <- err
	}()
	eventually(t, func() bool {
		children := w.info(p.AgentID).Children
		return len(children) == 1 && w.row(children[0]).State == "active"
	}, func() string { return "its prompt was never sent" })
	if n := w.row(p.AgentID).Descendants; n != 1 {
		t.Errorf("the control: it counts %d descendants", n)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the run: %v", err)
	}
	if owed := w.owed(p.AgentID); len(owed) > 0 {
		t.Errorf("owed: %+v", owed)
	}
	if row := w.row(p.AgentID); row.Descendants != 0 {
		t.Errorf("it counts as %d descendants", row.Descendants)
	}
}

// A run that has ended counts and is told, also when the server stops before pi has
// given its facts.
func TestStopWhileSettling(t *testing.T) {
	w := newWorld(t)
	w.script("slow", map[string]any{"on": map[string]any{"get_session_stats": []any{do("touch", "/tmp/asked"), do("wait_file", "/tmp/never")}}})
	p := w.run(agent.RunRequest{})
	c := w.child(p.AgentID, agent.RunRequest{Model: "slow"})
	w.rip(p.AgentID)
	w.send(c.AgentID, act(do("turn", "the answer")))
	waitFile(t, filepath.Join(w.files.Paths(c.AgentID).Tmp, "asked"))
	w.sup.Close()
	row, err := w.db.Any(t.Context(), c.AgentID)
	must(t, err)
	if row.SettleCount != 1 || row.State != "exited" {
		t.Errorf("%d settles, state %s", row.SettleCount, row.State)
	}
	if owed := w.owed(p.AgentID); len(owed) != 1 || !strings.Contains(owed[0].Body, `"why":"settled"`) {
		t.Errorf("owed: %+v", owed)
	}
}

// A refusal makes no group, however often it is asked for.
func TestRefusalMakesNoGroup(t *testing.T) {
	for _, most := range []int64{0, 1} {
		w := newWorld(t, func(c *agent.Config) { c.Limits.Descendants = most })
		p := w.run(agent.RunRequest{})
		before := w.count("groups")
		_, err := w.sup.Run(t.Context(), w.as(p.AgentID), agent.RunRequest{AccessToken: strings.Repeat("t", 32)})
		if made := w.count("groups") - before; (err == nil) != (most == 1) || made != int(most) {
			t.Errorf("with a limit of %d: %d groups are made, %v", most, made, err)
		}
	}
}

// What one agent says cannot fill another's context, in whatever characters.
func TestNewsAreShort(t *testing.T) {
	w := newWorld(t)
	p := w.run(agent.RunRequest{})
	c := w.child(p.AgentID)
	w.rip(p.AgentID)
	for _, text := range []string{strings.Repeat("<a&b>", 4000), strings.Repeat("\x01", 20_000), strings.Repeat("é", 20_000)} {
		w.send(c.AgentID, act(do("turn", text)))
	}
	w.settled(c.AgentID, 3)
	owed := w.owed(p.AgentID)
	if len(owed) != 3 {
		t.Fatalf("%d are owed", len(owed))
	}
	for _, d := range owed {
		if n := len(d.Body); n < 6<<10 || n > 16<<10 {
			t.Errorf("%d bytes: %.200s", n, d.Body)
		}
	}
}
