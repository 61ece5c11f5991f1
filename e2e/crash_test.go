package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A server that is killed takes its agents with it, and the next one finds them
// exited, says why, and can bring them back.
func TestF13ServerKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.script("deaf", deaf())
	c := w.client()
	agents := []info{c.run(nil), c.run(nil), c.run(nil), c.run(nil), c.run(obj{"model": "deaf"})}
	c.ask(agents[1].ID, "remember: perch")
	c.send(agents[2].ID, never())
	c.untilState(agents[2].ID, "active")
	c.kill()
	w.quiet()
	c = w.client()
	if l := call[listing](c, "list", obj{"states": []string{"exited"}}); l.Count != len(agents) {
		t.Errorf("%d agents are exited: %+v", l.Count, l)
	}
	for n, a := range agents {
		i := c.info(a.ID)
		if i.State != "exited" || i.PID != nil || i.LastError == nil || i.Lifecycle.SelfExits != 0 {
			t.Errorf("agent %d: %+v", n, i)
			continue
		}
		has(t, "last_error", *i.LastError, "server", "died")
		back := call[info](c, "resurrect", obj{"agent_id": a.ID})
		if back.State != "idle" || back.Lifecycle.Retries != 1 || back.LastError != nil {
			t.Errorf("agent %d came back as %+v", n, back)
		}
	}
	// What agent 1 said before is still in its session.
	if i := c.ask(agents[1].ID, "once more"); i.Messages.User != 2 || i.text() != "You said: once more" {
		t.Errorf("the session after the crash: %+v", i)
	}
}

// An agent was to be called back by one that was in the middle of a run when the
// server was killed. It is, once it lives again, and once.
func TestF13CallbackOutlivesTheServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	target := c.run(nil)
	child := c.run(obj{"callback_agent_id": target.ID})
	c.send(child.ID, never())
	c.untilState(child.ID, "active")
	c.kill()
	w.quiet()
	c = w.client()
	if i := c.info(child.ID); i.Callback.SettleCount != 1 || i.Callback.NotifiedSeq != 0 {
		t.Errorf("what there is to tell: %+v", i.Callback)
	}
	call[info](c, "resurrect", obj{"agent_id": target.ID})
	c.until(child.ID, "is told of", func(i info) bool { return i.Callback.NotifiedSeq == 1 })
	i := c.settled(target.ID, 1)
	has(t, "what it was told", i.text(), "[callback "+child.ID+":1]", `"why":"exited"`, "server")
	c.close()
	c = w.client()
	call[info](c, "resurrect", obj{"agent_id": target.ID})
	if i := c.ask(target.ID, "anything else?"); i.Messages.User != 2 {
		t.Errorf("told again: %+v", i.Messages)
	}
}

// What agents left running in sessions of their own dies with a killed server too.
func TestF11KilledServerLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	a := c.run(nil)
	sleep := []string{"/usr/bin/setsid", "/usr/bin/sleep", "1003"}
	c.send(a.ID, act(do("spawn", sleep), do("spawn", sleep), do("turn", "left two behind")))
	c.settled(a.ID, 1)
	eventually(t, func() bool { return count(w.caged(), "sleep 1003") == 2 }, func() string { return "the control: no sleep runs" })
	c.kill()
	w.quiet()
	if os.Geteuid() == 0 && !uncounted() && len(groups(a.ID)) == 0 {
		t.Error("the control: the killed server leaves no control group")
	}
	w.client()
	if left := groups(a.ID); len(left) > 0 {
		t.Errorf("the next server leaves %v", left)
	}
}

// groups lists the control groups of an agent.
func groups(id string) (all []string) {
	// Groups of others come and go during the walk.
	_ = filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), "pi-mcp-") && strings.HasSuffix(d.Name(), "."+id) {
			all = append(all, path)
		}
		return nil
	})
	return all
}

// A start that a crash cut short is gone with all it had made.
func TestKilledDuringStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.script("slow", obj{"start": []obj{do("touch", "/tmp/started"), do("wait_file", "/tmp/never")}})
	grants := w.grants()
	w.settle(grants)
	before := w.snapshot()
	c := w.wire(nil)
	c.hello()
	c.tool("run", with(grants, "model", "slow"))
	// Until bubblewrap has made the cage, it is not bound to its server yet.
	eventually(t, func() bool {
		started, err := filepath.Glob(w.path("agents", "*", "tmp", "started"))
		return len(started) == 1 && err == nil
	}, func() string { return "pi does not start: " + c.stderr.String() })
	c.cmd.Process.Kill()
	c.exit()
	w.quiet()
	c2 := w.client()
	c2.none()
	c2.close()
	w.untouched()
	w.same("a start that was cut short", before)
}
