package e2e

import "testing"

// A rip while pi starts keeps the agent, a remove does not; the run that waits is
// told either way.
func TestStopDuringStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.script("slow", obj{"start": []obj{do("wait_file", "/tmp/go")}})
	c := w.client()
	for _, tool := range []string{"rip", "remove"} {
		words := make(chan string, 1)
		go func() {
			text, failed, err := c.try("run", obj{"model": "slow"})
			if !failed || err != nil {
				t.Errorf("the run under way: %s %v", text, err)
			}
			words <- text
		}()
		var l listing
		eventually(t, func() bool {
			l = call[listing](c, "list", obj{"states": []string{"active"}})
			return l.Count == 1
		}, func() string { return "the start is not in the list" })
		call[obj](c, tool, obj{"agent_id": l.Agents[0].ID})
		has(t, "the run during "+tool, <-words, "stopped during start")
		if tool == "remove" {
			continue
		}
		if i := c.info(l.Agents[0].ID); i.State != "ripped" || i.Lifecycle.Rips != 1 {
			t.Errorf("after the rip: %+v", i)
		}
		call[obj](c, "remove", obj{"agent_id": l.Agents[0].ID})
	}
	c.none()
	w.untouched()
}
