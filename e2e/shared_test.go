package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// 64 calls at a time, each of which makes the server read and then write, on one
// server and then on two over the same database.
func TestF52Parallel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.client(), w.client()
	storm(t, one)
	storm(t, one, two)
	for _, c := range []*client{one, two} {
		if strings.Contains(c.stderr.String(), "locked") {
			t.Errorf("the server's log: %s", c.stderr.String())
		}
	}
}

// Servers that start at the same moment where there is no database yet.
func TestF52FirstStart(t *testing.T) {
	t.Parallel()
	for range 5 {
		w := newWorld(t)
		var servers []*wire
		for range 6 {
			servers = append(servers, w.wire(nil))
		}
		for _, c := range servers {
			c.hello()
		}
	}
}

// storm sends 64 messages to agents of the clients, all at once, and sees that
// none is lost.
func storm(t *testing.T, clients ...*client) {
	t.Helper()
	const calls, agents = 64, 4
	type target struct {
		c *client
		a info
	}
	var targets []target
	for n := range agents {
		c := clients[n%len(clients)]
		targets = append(targets, target{c, c.run(nil)})
	}
	var wg sync.WaitGroup
	for n := range calls {
		to := targets[n%agents]
		wg.Go(func() {
			for _, call := range []struct {
				tool string
				args obj
			}{
				{"send_message", obj{"agent_id": to.a.ID, "message": fmt.Sprint("message ", n)}},
				{"get_info", obj{"agent_id": to.a.ID}},
				{"list", obj{"states": []string{"active"}}},
			} {
				if text, failed, err := to.c.try(call.tool, call.args); failed || err != nil {
					t.Errorf("%s: %s %v", call.tool, text, err)
				}
			}
		})
	}
	wg.Wait()
	for _, to := range targets {
		i := to.c.until(to.a.ID, "every message", func(i info) bool {
			return i.State == "idle" && i.Messages.User == calls/agents
		})
		if i.LastError != nil {
			t.Errorf("last error: %s", *i.LastError)
		}
	}
}

// Two servers over one database: each sees all agents, and neither touches the
// other's live ones, whatever happens to the other.
func TestF53TwoServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.client()
	a := one.run(nil)
	two := w.client()
	b := two.run(nil)
	for _, c := range []*client{one, two} {
		if l := call[listing](c, "list", obj{"states": []string{"idle"}}); l.Count != 2 {
			t.Errorf("it sees %+v", l)
		}
	}
	for _, tool := range []string{"rip", "remove", "abort", "resurrect", "send_message"} {
		args := obj{"agent_id": a.ID}
		if tool == "send_message" {
			args["message"] = "hello"
		}
		has(t, tool+" by the other server", two.refused(tool, args), fmt.Sprintf("pid %d", one.cmd.Process.Pid))
	}
	one.ask(a.ID, "still here?") // the control
	call[obj](one, "rip", obj{"agent_id": a.ID})
	call[info](two, "resurrect", obj{"agent_id": a.ID}) // a stopped agent is anybody's
	has(t, "a message by its first server", one.refused("send_message", obj{"agent_id": a.ID, "message": "hello"}), fmt.Sprintf("pid %d", two.cmd.Process.Pid))
	two.kill()
	c := one.run(nil)
	three := w.client() // finds what the dead one left, and lets the living alone
	for _, id := range []string{a.ID, b.ID} {
		if i := three.info(id); i.State != "exited" || i.LastError == nil {
			t.Errorf("an agent of the dead server: %+v", i)
		}
	}
	if i := one.ask(c.ID, "and you?"); i.text() != "You said: and you?" || *i.PID != *c.PID {
		t.Errorf("an agent of the living server: %+v", i)
	}
	call[info](one, "resurrect", obj{"agent_id": b.ID})
}

// Servers with different access tokens see different agents, and the token itself
// is written nowhere.
func TestTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secrets := []string{secret(), secret()}
	look := newLookout(secrets...)
	one, two := w.client("PI_MCP_ACCESS_TOKEN="+secrets[0]), w.client("PI_MCP_ACCESS_TOKEN="+secrets[1])
	a, b := one.run(nil), two.run(nil)
	same := w.client("PI_MCP_ACCESS_TOKEN=" + secrets[0])
	for name, tc := range map[string]struct {
		c    *client
		want string
	}{
		"one": {one, a.ID}, "two": {two, b.ID}, "same as one": {same, a.ID},
	} {
		if l := call[listing](tc.c, "list", nil); l.Total != 1 || l.Count != 1 || l.Agents[0].ID != tc.want {
			t.Errorf("%s sees %+v", name, l)
		}
	}
	w.client().none()
	for _, tool := range []string{"get_info", "rip", "remove", "read", "list_tmp"} {
		has(t, tool+" with the other token", two.refused(tool, obj{"agent_id": a.ID}), "no such agent")
	}
	if i := same.info(a.ID); i.State != "idle" { // the control
		t.Errorf("with the same token: %+v", i)
	}
	one.ask(a.ID, "hello")
	for _, s := range secrets {
		if got := filesWith(t, w.dir, s); len(got) > 0 {
			t.Errorf("a token is in %v", got)
		}
	}
	// Those who start a server put the token into its environment, and only there.
	if seen := look.end(); len(seen) != 2 {
		t.Errorf("the control: %v of %v", seen, secrets)
	}
	for _, c := range []*client{one, two, same} {
		if slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(c.stderr.String()+c.results.String(), s) }) {
			t.Error("a token is in a log or a result")
		}
	}
}

// A token that a client gives to run puts the agent out of the client's own sight.
func TestTokenOfRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := secret()
	c := w.client()
	a := call[info](c, "run", obj{"access_token": token})
	c.none()
	if i := w.client("PI_MCP_ACCESS_TOKEN=" + token).info(a.ID); i.State != "idle" {
		t.Errorf("in the token's group: %+v", i)
	}
	if got := filesWith(t, w.dir, token); len(got) > 0 {
		t.Errorf("the token is in %v", got)
	}
}
