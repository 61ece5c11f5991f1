package mcpserver_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-mcp/store"
)

// A run that waits for a pi which never answers is cut short by the stop of the
// server, and leaves nothing.
func TestStopDuringRun(t *testing.T) {
	w := newWorld(t)
	w.script("mute", map[string]any{"on": map[string]any{"get_state": []any{map[string]any{"hang": true}}}})
	s := w.connect("")
	text := make(chan string)
	go func() {
		res, err := s.CallTool(context.WithoutCancel(t.Context()), &mcp.CallToolParams{Name: "run", Arguments: args{"model": "mute"}})
		if err != nil {
			text <- err.Error()
			return
		}
		text <- words(res)
	}()
	w.eventually("the start of pi", func() bool {
		rows, _, err := w.db.List(t.Context(), store.Query{Group: w.who.Group})
		must(t, err)
		return len(rows) == 1
	})
	w.server.Stop()
	if got := <-text; !strings.Contains(got, "the server stopped during the call") {
		t.Errorf("the run says %q", got)
	}
	if rows, _, err := w.db.List(t.Context(), store.Query{Group: w.who.Group}); len(rows) > 0 || err != nil {
		t.Errorf("%d rows are left (%v)", len(rows), err)
	}
	if left, err := filepath.Glob(filepath.Join(w.files.Root(), "*-*")); len(left) > 0 || err != nil {
		t.Errorf("%v is left (%v)", left, err)
	}
}

// A supervisor that stops before its server says the same.
func TestCallAfterSupervisorClosed(t *testing.T) {
	w := newWorld(t)
	s := w.connect("")
	id := do(t, s, "run", nil)["agent_id"].(string)
	w.sup.Close()
	for tool, a := range map[string]args{
		"run": {}, "send_message": {"agent_id": id, "message": "hello"}, "resurrect": {"agent_id": id}, "rip": {"agent_id": id},
		"remove": {"agent_id": id}, "abort": {"agent_id": id}, "wait": {"agent_ids": []string{id}},
	} {
		if res := call(t, s, tool, a); !res.IsError || !strings.Contains(words(res), "the server is stopping") {
			t.Errorf("%s says %s", tool, words(res))
		}
	}
	if out := do(t, s, "get_info", args{"agent_id": id}); out["state"] != "exited" || out["pid"] != nil {
		t.Errorf("the agent is %v", out)
	}
	if _, err := os.Stat(w.files.Paths(id).Dir); err != nil {
		t.Error(err)
	}
}
