package e2e

import (
	"strings"
	"testing"
)

// The agent is told where it lives: the model sees it with every request.
func TestToldWhereItLives(t *testing.T) {
	t.Parallel()
	w, m := newReal(t)
	c := w.client()
	project, data := t.TempDir(), t.TempDir()
	a := c.run(obj{"write": []string{project}, "read": []string{data}, "network": "provider"})
	c.ask(a.ID, "hello")
	system := m.Requests()[0].Messages[0].Text
	for _, part := range []string{a.ID, "change: `" + project + "`", "not change: `" + data + "`", "/home/agent", "no network"} {
		if !strings.Contains(system, part) {
			t.Errorf("the system prompt lacks %q:\n%s", part, system)
		}
	}
	if strings.Contains(system, "Closed to you") {
		t.Error("it is told of denied paths where there are none")
	}
}
