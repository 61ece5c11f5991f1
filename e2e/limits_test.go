package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A bash tool that fills /tmp: its agent is told before the next request to the
// model, once, and is stopped because it deletes nothing. Other agents go on, and the
// stopped one can be brought back when there is room.
func TestTmpBudget(t *testing.T) {
	t.Parallel()
	w, m := newReal(t, "PI_MCP_MAX_TMP=16MiB", "PI_MCP_CHECK_PAUSE=1s")
	c := w.client()
	other, a := c.run(nil), c.run(nil)
	c.send(a.ID, "bash: head -c 20000000 /dev/zero > /tmp/large; until [ -e /tmp/go ]; do sleep 0.02; done; echo full")
	c.until(a.ID, "a message of the server's", func(i info) bool { return i.QueueLength == 1 })
	c.let(a, "go")
	i := c.until(a.ID, "the end", func(i info) bool { return i.State == "ripped" })
	if i.LastError == nil || !strings.Contains(*i.LastError, "over the limit --max-tmp:") || !strings.Contains(*i.LastError, a.Artifacts.Tmp) {
		t.Errorf("stopped because of %v", i.LastError)
	}
	told := slices.DeleteFunc(m.said(), func(text string) bool { return !strings.HasPrefix(text, "[pi-mcp] ") })
	if len(told) != 1 || !strings.Contains(told[0], "16 MiB") || !strings.Contains(told[0], "Delete") {
		t.Errorf("the model heard %q", told)
	}
	c.ask(other.ID, "are you there")
	if heard := m.said(); len(heard) != 1 {
		t.Errorf("the other agent heard %q", heard)
	}
	must(t, os.Remove(filepath.Join(a.Artifacts.Tmp, "large")))
	call[info](c, "resurrect", obj{"agent_id": a.ID})
	c.ask(a.ID, "and you")
}
