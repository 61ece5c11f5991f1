package e2e

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A stage is a temporary project with things that an agent may write, read, or
// not see.
type stage struct{ project, data, hidden string }

func newStage(t testing.TB) stage {
	t.Helper()
	dir := t.TempDir()
	s := stage{filepath.Join(dir, "project"), filepath.Join(dir, "data"), filepath.Join(dir, "project", "hidden")}
	write(t, filepath.Join(s.data, "facts.txt"), "water is wet\n")
	write(t, filepath.Join(s.hidden, "key.txt"), "the hidden key\n")
	return s
}

func (s stage) grants() obj {
	return obj{"write": []string{s.project}, "read": []string{s.data}, "denied": []string{s.hidden}, "cwd": s.project}
}

// The main job, from run to remove: a real pi in a real cage.
func TestJob(t *testing.T) {
	t.Parallel()
	w, _ := newReal(t)
	c := w.client()
	s := newStage(t)
	args := s.grants()
	args["name"], args["thinking"], args["context_size"] = "worker", "low", 50000
	a := c.run(args)
	t.Run("Info", func(t *testing.T) { checkInfo(t, a, s) })
	t.Run("Turn", func(t *testing.T) { checkTurn(t, c, a, s) })
	t.Run("Grants", func(t *testing.T) { checkGrants(t, c, a, s) })
	t.Run("Log", func(t *testing.T) { checkLog(t, c, a) })
	t.Run("Tmp", func(t *testing.T) { checkTmp(t, c, a) })
	t.Run("Rip", func(t *testing.T) { checkRip(t, c, a) })
	t.Run("Remove", func(t *testing.T) {
		call[obj](c, "remove", obj{"agent_id": a.ID})
		c.none()
		w.untouched()
		if left := w.caged(); len(left) > 0 {
			t.Errorf("processes are left: %v", left)
		}
		if _, err := os.Stat(filepath.Join(s.project, "made.txt")); err != nil {
			t.Errorf("what the agent made in the project is gone: %v", err)
		}
	})
}

func checkInfo(t *testing.T, a info, s stage) {
	if a.Name != "worker" || a.Cwd != s.project || a.SessionID != a.ID || a.ContextSize == nil || *a.ContextSize != 50000 {
		t.Errorf("run: %+v", a)
	}
	want := []string{s.project, s.data, s.hidden}
	got := append(append(append([]string{}, a.Mounts.Write...), a.Mounts.Read...), a.Mounts.Denied...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mounts: %s", diff)
	}
	if a.Text != nil || a.Messages.Total != 0 || a.SettleCount != 0 {
		t.Errorf("a fresh agent has said something: %+v", a)
	}
}

func checkTurn(t *testing.T, c *client, a info, s stage) {
	i := c.ask(a.ID, "bash: echo made here > made.txt; pwd # remember: mackerel")
	has(t, "the answer", i.text(), "It printed: "+s.project)
	made, err := os.ReadFile(filepath.Join(s.project, "made.txt"))
	if err != nil || string(made) != "made here\n" {
		t.Errorf("the agent's file: %q, %v", made, err)
	}
	if m := i.Messages; m.User != 1 || m.Assistant != 2 || m.ToolCalls != 1 || m.Total != 3 {
		t.Errorf("messages: %+v", m)
	}
	if n := i.Tokens; n.Input != 200 || n.Output != 20 || n.CacheRead != 80 || n.CacheWrite != 40 || n.Total != 340 {
		t.Errorf("tokens: %+v", n)
	}
	if math.Abs(i.Cost-2*149e-6) > 1e-9 {
		t.Errorf("cost: %v", i.Cost)
	}
	if i.SettleCount != 1 || i.LastError != nil || i.QueueLength != 0 {
		t.Errorf("after one turn: %+v", i)
	}
}

func checkGrants(t *testing.T, c *client, a info, s stage) {
	for _, try := range []struct{ command, want string }{
		{"cat " + s.data + "/facts.txt", "water is wet"}, // the control
		{"echo x > " + s.data + "/new.txt", "Read-only file system"},
		{"cat " + s.hidden + "/key.txt", "Permission denied"},
		{"ls " + s.hidden, "Permission denied"},
		{"mv " + s.hidden + " " + s.project + "/seen", "busy"},
		{"cat " + a.Artifacts.Session, "No such file"},
	} {
		has(t, try.command, c.ask(a.ID, "bash: "+try.command).text(), try.want)
	}
	absent(t, filepath.Join(s.data, "new.txt"))
	key, err := os.ReadFile(filepath.Join(s.hidden, "key.txt"))
	if err != nil || string(key) != "the hidden key\n" {
		t.Errorf("the denied file on the host: %q, %v", key, err)
	}
}

func checkLog(t *testing.T, c *client, a info) {
	type chunk struct {
		Content string
		Size    int
		EOF     bool
	}
	first := call[chunk](c, "read", obj{"agent_id": a.ID, "max_lines": 1})
	has(t, "the first line", first.Content, `"type":"response"`, `"command":"get_state"`)
	whole := call[chunk](c, "read", obj{"agent_id": a.ID, "bytes_from": 0, "max_bytes": 10 << 20}) // lines may be too long to be shown whole
	if !whole.EOF || len(whole.Content) < first.Size {
		t.Errorf("the whole log: %d of %d bytes, eof %v", len(whole.Content), whole.Size, whole.EOF)
	}
	type found struct {
		Stdout string
		Code   int `json:"exit_code"`
	}
	one := call[found](c, "grep", obj{"agent_id": a.ID, "args": []string{"-c", `"type":"tool_execution_start".*made.txt`}})
	if one.Stdout != "1\n" {
		t.Errorf("the log has %q tool calls with made.txt", one.Stdout)
	}
	if none := call[found](c, "grep", obj{"agent_id": a.ID, "args": []string{"-c", "the hidden key"}}); none.Stdout != "0\n" || none.Code != 1 {
		t.Errorf("the log has the hidden key: %+v", none)
	}
}

func checkTmp(t *testing.T, c *client, a info) {
	c.ask(a.ID, "bash: mkdir -p /tmp/notes && echo a needle in it > /tmp/notes/hay.txt")
	text, failed, err := c.try("list_tmp", obj{"agent_id": a.ID})
	if failed || err != nil {
		t.Fatal(text, err)
	}
	has(t, "list_tmp", text, `"notes/hay.txt"`)
	if strings.Contains(text, "auth.json") {
		t.Errorf("list_tmp shows credentials: %s", text)
	}
	file := call[struct{ Content string }](c, "read_tmp", obj{"agent_id": a.ID, "path": "notes/hay.txt"})
	if file.Content != "a needle in it\n" {
		t.Errorf("read_tmp: %q", file.Content)
	}
	found := call[struct{ Stdout string }](c, "grep_tmp", obj{"agent_id": a.ID, "args": []string{"-rn", "needle", "."}})
	has(t, "grep_tmp", found.Stdout, "notes/hay.txt:1:a needle in it")
}

// The word is in the first turn's message only, and pi has been restarted.
func checkRip(t *testing.T, c *client, a info) {
	turns := c.info(a.ID).SettleCount
	first := call[info](c, "rip", obj{"agent_id": a.ID})
	if first.State != "ripped" || !first.Ripped || first.AlreadyRipped || first.PID != nil || first.Lifecycle.Rips != 1 {
		t.Errorf("rip: %+v", first)
	}
	if alive(*a.PID) {
		t.Errorf("pid %d is alive after the rip", *a.PID)
	}
	if again := call[info](c, "rip", obj{"agent_id": a.ID}); !again.AlreadyRipped || again.Lifecycle.Rips != 1 {
		t.Errorf("a second rip: %+v", again)
	}
	has(t, "a message to a ripped agent", c.refused("send_message", obj{"agent_id": a.ID, "message": "hello"}), "resurrect")
	back := call[info](c, "resurrect", obj{"agent_id": a.ID, "prompt": "recall"})
	if !back.Resurrected || !back.PromptSent || back.Delivery != "resurrect_prompt" || back.Disposition != "started" || back.Lifecycle.Retries != 1 {
		t.Errorf("resurrect: %+v", back)
	}
	i := c.settled(a.ID, turns+1)
	has(t, "the answer", i.text(), "The word was mackerel")
	if i.SessionID != a.ID || i.Messages.User <= turns {
		t.Errorf("it is not the same session: %+v", i)
	}
}
