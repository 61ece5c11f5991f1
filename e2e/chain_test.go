package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pi-mcp/scripted"
)

// A told is what an agent was told of the ends of others.
type told struct {
	marks string            // the first lines of the messages
	ids   map[string]string // of the agents, by name
}

// toldIn reads a request's messages.
func toldIn(r scripted.Request) told {
	all := told{ids: map[string]string{}}
	for _, msg := range r.Messages {
		if msg.Role != "user" || !strings.HasPrefix(msg.Text, "[callback ") {
			continue
		}
		head, bodies, _ := strings.Cut(msg.Text, "\n")
		all.marks += head + "\n"
		for body := range strings.Lines(bodies) {
			var news struct {
				ID   string `json:"agent_id"`
				Name string
			}
			if json.Unmarshal([]byte(body), &news) == nil {
				all.ids[news.Name] = news.ID
			}
		}
	}
	return all
}

// A parent, by its own tool calls, starts two children with less than it has and
// itself as callback, goes idle, is woken by what they came to, reads a child's file,
// and answers.
func TestChain(t *testing.T) {
	t.Parallel()
	w, m := newReal(t)
	// Once both have called back the model looks at what the first has left.
	m.react = func(r scripted.Request) []scripted.ToolCall {
		heard := toldIn(r)
		if _, looked := r.ToolResult(); looked || len(heard.ids) < 2 || !strings.HasPrefix(r.Last(), "[callback ") {
			return nil
		}
		return []scripted.ToolCall{scripted.Call(mcpTool("read_tmp"), obj{"agent_id": heard.ids["one"], "path": "out"})}
	}
	c := w.client()
	project, data := t.TempDir(), t.TempDir()
	write(t, filepath.Join(data, "d"), "data")
	parent := c.run(obj{"write": []string{project}, "read": []string{data}, "network": "provider"})
	child := func(name, content string) string {
		dir := filepath.Join(project, name)
		write(t, filepath.Join(dir, "in"), content)
		return callTool("run", obj{
			"name": name, "callback_agent_id": parent.ID, "cwd": dir, "write": []string{dir},
			"prompt": "bash: cp in /tmp/out; touch was-here; cat " + data + "/d",
		})
	}
	c.ask(parent.ID, steps(child("one", "the first's"), "and: "+child("two", "the second's")))
	children := c.info(parent.ID).Children
	if len(children) != 2 {
		t.Fatalf("the parent has the children %v", children)
	}
	for _, id := range children {
		i := c.info(id)
		own := filepath.Join(project, i.Name)
		if str(i.Parent) != parent.ID || i.Depth != 1 || !slices.Equal(i.Network.Policy, []string{"provider"}) ||
			!slices.Equal(i.Mounts.Write, []string{own}) || len(i.Mounts.Read) != 0 {
			t.Errorf("child %s: %+v", i.Name, i)
		}
		i = c.until(id, "tells its parent", func(i info) bool { return i.Callback.NotifiedSeq == 1 })
		if i.Callback.SettleCount != 1 || i.Callback.Error != nil {
			t.Errorf("callback of %s: %+v", i.Name, i.Callback)
		}
		has(t, "what it was not given", i.text(), "No such file")
		if _, err := os.Stat(filepath.Join(own, "was-here")); err != nil {
			t.Error(err)
		}
	}
	c.until(parent.ID, "answers with the child's file", func(i info) bool {
		return i.State == "idle" && strings.Contains(i.text(), "the first's")
	})
	requests := m.Requests()
	marks := toldIn(requests[len(requests)-1]).marks
	for _, id := range children {
		if n := strings.Count(marks, "[callback "+id+":1]"); n != 1 {
			t.Errorf("%s has called back %d times:\n%s", id, n, marks)
		}
	}
	if got := call[obj](c, "remove", obj{"agent_id": parent.ID, "descendants": true}); got["descendants"] != 2.0 {
		t.Errorf("removed %v", got)
	}
	c.none()
}

// A grandchild asks for more than it may have, and gets nothing; for what it may, and
// gets it.
func TestGrandchildAsksForMore(t *testing.T) {
	t.Parallel()
	w, _ := newReal(t)
	c := w.client()
	project := t.TempDir()
	inside, outside := filepath.Join(project, "inside"), t.TempDir()
	write(t, filepath.Join(inside, "f"), "x")
	write(t, filepath.Join(project, "closed", "f"), "x")
	must(t, os.Symlink(outside, filepath.Join(project, "inside", "link")))
	a := c.run(obj{"write": []string{project}, "denied": []string{filepath.Join(project, "closed")}, "network": "provider"})
	// The child gets one directory of its parent's, for reading.
	c.ask(a.ID, callTool("run", obj{"name": "child", "read": []string{inside}}))
	child := c.info(c.info(a.ID).Children[0])
	for _, more := range []struct {
		what string
		args obj
		says string
	}{
		{"its parent's directory", obj{"read": []string{project}}, "read:"},
		{"to write what it may read", obj{"write": []string{inside}}, "write:"},
		{"a denied path", obj{"read": []string{filepath.Join(project, "closed")}}, "read:"},
		{"a path outside", obj{"read": []string{outside}}, "read:"},
		{"a link to the outside", obj{"read": []string{filepath.Join(inside, "link")}}, "read:"},
		{"its own /tmp", obj{"read": []string{"/tmp"}}, "read:"},
		{"more network", obj{"network": "internet"}, "network:"},
		{"a short token", obj{"access_token": "short token"}, "access_token:"},
		{"a callback to a stranger", obj{"callback_agent_id": "01a1964b-2c01-70a5-b520-78f933cdafad"}, "callback_agent_id:"},
	} {
		has(t, more.what, c.ask(child.ID, callTool("run", more.args)).text(), more.says)
	}
	if n := len(c.info(child.ID).Children); n != 0 {
		t.Fatalf("it has %d children", n)
	}
	// The control: less than it has.
	has(t, "less", c.ask(child.ID, callTool("run", obj{"name": "grandchild", "read": []string{filepath.Join(inside, "f")}, "network": "provider"})).text(), `"depth":2`)
	grandchild := c.info(c.info(child.ID).Children[0])
	has(t, "what it may read", c.ask(grandchild.ID, "bash: cat "+filepath.Join(inside, "f")+"; ls "+inside).text(), "x", "f")
	// Deeper than it may go.
	c.ask(grandchild.ID, callTool("run", obj{}))
	deepest := c.info(c.info(grandchild.ID).Children[0])
	has(t, "too deep", c.ask(deepest.ID, callTool("run", obj{})).text(), "--max-depth of 3")
	// Nobody sees but its own.
	has(t, "its parent", c.ask(child.ID, callTool("get_info", obj{"agent_id": a.ID})).text(), "no such agent")
	has(t, "itself", c.ask(child.ID, callTool("get_info", obj{"agent_id": child.ID})).text(), child.ID)
	has(t, "to act on itself", c.ask(child.ID, callTool("rip", obj{"agent_id": child.ID})).text(), "your own")
	if got := call[obj](c, "remove", obj{"agent_id": a.ID, "descendants": true}); got["descendants"] != 3.0 {
		t.Errorf("removed %v", got)
	}
	c.none()
}
