package mcpserver_test

import (
	"encoding/json"
	"maps"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-mcp/agent"
	"pi-mcp/store"
)

// A fixture is a world with a live, idle agent that has something in its /tmp, an
// agent of another group, and all tools.
type fixture struct {
	*world
	c       *wire
	id      string
	foreign string
	tools   map[string]*mcp.Tool
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := newWorld(t)
	f := &fixture{world: w, c: w.wire(), foreign: newID(t)}
	f.c.greet("2025-11-25")
	s := w.connect("")
	f.tools = tools(t, s)
	f.id = do(t, s, "run", nil)["agent_id"].(string)
	f.litter(f.id)
	w.insert(f.foreign, func(a *store.Agent) { a.Group = "other" })
	return f
}

func newID(t testing.TB) string {
	t.Helper()
	id, err := uuid.NewV7()
	must(t, err)
	return id.String()
}

// good arranges that a call of a tool succeeds, and returns the required
// arguments of that call. The agent does nothing by itself then.
func (f *fixture) good(tool string) args {
	f.t.Helper()
	id := f.id
	f.eventually("the end of the run", func() bool {
		i, err := f.sup.Info(f.t.Context(), f.who, id)
		must(f.t, err)
		return i.State != agent.Active
	})
	switch tool {
	case "list", "run":
		return args{}
	case "resurrect":
		_, err := f.sup.Rip(f.t.Context(), f.who, id, false)
		must(f.t, err)
	case "send_message", "abort":
		if i, err := f.sup.Info(f.t.Context(), f.who, id); err != nil || i.PID == nil {
			_, err = f.sup.Resurrect(f.t.Context(), f.who, id, nil)
			must(f.t, err)
		}
	case "wait":
		return args{"agent_ids": []string{id}}
	case "remove":
		id = newID(f.t)
		f.shelve(id, nil)
	}
	a := args{"agent_id": id}
	maps.Copy(a, map[string]args{
		"send_message": {"message": "hello"}, "read_tmp": {"path": "notes/a.txt"},
		"grep": {"args": []string{"-c", "x"}}, "grep_tmp": {"args": []string{"-c", "x"}},
	}[tool])
	return a
}

// taken makes a call that has to succeed.
func (f *fixture) taken(tool, arguments string) map[string]any {
	f.t.Helper()
	r := f.c.call(tool, arguments)
	if r.Error != nil {
		f.t.Fatalf("%s of %.200s is a protocol error: %v", tool, arguments, r.Error)
	}
	var res struct {
		IsError           bool
		StructuredContent map[string]any
	}
	must(f.t, json.Unmarshal(r.Result, &res))
	if res.IsError {
		f.t.Errorf("%s of %.200s is refused: %.300s", tool, arguments, r.Result)
	}
	return res.StructuredContent
}

// object is arguments as JSON, with some set to others.
func object(t testing.TB, base args, change ...any) string {
	t.Helper()
	all := maps.Clone(base)
	for i := 0; i < len(change); i += 2 {
		all[change[i].(string)] = change[i+1]
	}
	text, err := json.Marshal(all)
	must(t, err)
	return string(text)
}

// A state is all that calls can change.
type state struct {
	Rows  []store.Agent
	Files []string
}

func (f *fixture) state() state {
	f.t.Helper()
	var s state
	for _, group := range []string{f.who.Group, "other"} {
		rows, _, err := f.db.List(f.t.Context(), store.Query{Group: group})
		must(f.t, err)
		s.Rows = append(s.Rows, rows...)
	}
	entries, err := os.ReadDir(f.files.Root())
	must(f.t, err)
	for _, e := range entries {
		s.Files = append(s.Files, e.Name())
	}
	return s
}
