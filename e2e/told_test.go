package e2e

import (
	"strings"
	"testing"

	"pi-mcp/cage/cgroup"
)

// The agent is told where it lives: the model sees it with every request.
func TestToldWhereItLives(t *testing.T) {
	t.Parallel()
	w, m := newReal(t)
	env, parts := []string{"PI_MCP_MAX_TMP=100MiB", "PI_MCP_MAX_SESSION=none"}, []string(nil)
	if !uncounted() {
		env, parts = append(env, "PI_MCP_MAX_PROCESSES=500"), append(parts, "500 processes")
	}
	c := w.client(env...)
	project, data := t.TempDir(), t.TempDir()
	a := c.run(obj{"write": []string{project}, "read": []string{data}, "network": "provider"})
	c.ask(a.ID, "hello")
	system := m.Requests()[0].Messages[0].Text
	for _, part := range append(parts, a.ID, "change: `"+project+"`", "not change: `"+data+"`", "/home/agent", "no network",
		"2 GiB in one file", "100 MiB in /tmp", "200000 files") {
		if !strings.Contains(system, part) {
			t.Errorf("the system prompt lacks %q:\n%s", part, system)
		}
	}
	for _, part := range []string{"Closed to you", "session file", "of memory", "CPUs"} {
		if strings.Contains(system, part) {
			t.Errorf("it is told of what there is not: %q", part)
		}
	}
}

// Of limits on memory and CPU it is told where they hold, and the log says where not.
func TestToldOfMemory(t *testing.T) {
	t.Parallel()
	w, m := newReal(t)
	c := w.client("PI_MCP_MAX_MEMORY=3GiB", "PI_MCP_MAX_CPU=1.5")
	a := c.run(nil)
	c.ask(a.ID, "hello")
	system := m.Requests()[0].Messages[0].Text
	for part, limit := range map[string]cgroup.Limits{"3 GiB of memory": {MemoryBytes: 1 << 20}, "time of 1.5 CPUs": {CPUPercent: 1}} {
		held := enforced(limit)
		if told := strings.Contains(system, part); told != held {
			t.Errorf("it is told of %q: %t, and it holds: %t\n%s", part, told, held, system)
		}
		if !held {
			has(t, "the log", c.stderr.String(), "without a limit that was asked for")
		}
	}
}
