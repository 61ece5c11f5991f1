package mcpserver_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-mcp/agent"
	"pi-mcp/store"
)

// below stores an agent that has ended and that another one started.
func (w *world) below(parent, text string, failure *string) string {
	w.t.Helper()
	row := store.Agent{
		ID: uuid.NewString(), Group: w.who.Group, Account: w.who.Group, State: string(agent.Exited), Cwd: "/tmp",
		Parent: parent, Ancestors: []string{parent}, Depth: 1, LastText: &text, LastTextBytes: int64(len(text)), LastError: failure,
	}
	must(w.t, w.db.Insert(w.t.Context(), row, agent.NoLimit))
	return row.ID
}

// What an agent's own wait returns is short enough for pi to show all of it to the
// model, whatever the texts are, and has every agent. A client gets the texts.
func TestOwnWaitFits(t *testing.T) {
	const most, pieces = 14 << 10, 8 << 10
	failure := strings.Repeat("no credit <&> ", 400)
	a := newWorld(t).caged()
	s, client := a.session(""), a.connect("")
	for name, tc := range map[string]struct {
		texts []string
		fail  *string
		least int // bytes of the first text that there is room for
	}{
		"four":            {repeat(4, strings.Repeat("x", pieces)), nil, 3 << 10},
		"four that quote": {repeat(4, strings.Repeat("\"\\<\n", pieces/4)), nil, 700},
		"one of many":     {append([]string{strings.Repeat("x", pieces)}, repeat(9, "short")...), nil, pieces},
		"with errors":     {repeat(4, strings.Repeat("ä", pieces/2)), &failure, 1 << 10},
		"as many as may":  {repeat(64, strings.Repeat("x", pieces)), &failure, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a.t = t
			var ids []string
			for _, text := range tc.texts {
				ids = append(ids, a.below(a.id, text, tc.fail))
			}
			res := call(t, s, "wait", args{"agent_ids": ids, "until": "all"})
			if n := len(words(res)); res.IsError || n > most {
				t.Fatalf("%d bytes: %.300s", n, words(res))
			}
			all := agentsOf(res)
			for i, id := range ids {
				one := all[i].(map[string]any)
				text, _ := one["last_assistant_text"].(string)
				if one["id"] != id || one["state"] != "exited" || one["last_assistant_text_bytes"] != float64(len(tc.texts[i])) ||
					!strings.HasPrefix(tc.texts[i], text) {
					t.Errorf("agent %d: %.300v", i, one)
				}
				if i == 0 && len(text) < tc.least {
					t.Errorf("%d bytes of the first text", len(text))
				}
			}
			for i, one := range agentsOf(call(t, client, "wait", args{"agent_ids": ids, "until": "all"})) {
				if got := one.(map[string]any)["last_assistant_text"]; got != tc.texts[i] {
					t.Errorf("the control: agent %d has %.100q", i, got)
				}
			}
		})
	}
	var ids []string
	for range 65 {
		ids = append(ids, uuid.NewString())
	}
	if res := call(t, s, "wait", args{"agent_ids": ids}); !res.IsError || !strings.Contains(words(res), "the limit for an agent is 64") {
		t.Errorf("one too many: %s", words(res))
	}
}

func repeat(n int, text string) (all []string) {
	for range n {
		all = append(all, text)
	}
	return all
}

func agentsOf(res *mcp.CallToolResult) []any {
	return res.StructuredContent.(map[string]any)["agents"].([]any)
}
