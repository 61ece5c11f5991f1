package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pi-mcp/scripted"
)

// A parent starts a child that will call it back and waits for it in the same turn:
// it gets the child's answer from the wait, and no callback beside or after it.
func TestOwnWaitInsteadOfCallback(t *testing.T) {
	t.Parallel()
	w, m := newReal(t)
	c := w.client()
	p := c.run(obj{"network": "provider"})
	c.send(p.ID, steps(
		callTool("run", obj{"callback_agent_id": p.ID, "prompt": "hold: news"}),
		"call: "+mcpTool("wait")+` {"agent_ids":["<1.agent_id>"],"after":{"<1.agent_id>":0},"timeout_seconds":300}`))
	eventually(t, func() bool {
		return call[obj](c, "grep", obj{"agent_id": p.ID, "args": []string{"-c", `"type":"tool_execution_start".*pi_mcp__wait`}})["stdout"] == "1\n"
	}, func() string { return "the parent does not wait" })
	m.held(t, "news")
	child := c.info(c.info(p.ID).Children[0])
	m.release("news")
	i := c.settled(p.ID, 1)
	has(t, "what the wait returned", i.text(), "I held news")
	child = c.until(child.ID, "has told its parent", func(i info) bool { return i.Callback.NotifiedSeq == 1 })
	if child.Callback.SettleCount != 1 || child.Callback.Error != nil {
		t.Errorf("the child's callback: %+v", child.Callback)
	}
	if i := c.ask(p.ID, "hello"); i.SettleCount != 2 {
		t.Errorf("it has had %d turns", i.SettleCount)
	}
	for _, text := range m.said() {
		if strings.HasPrefix(text, "[callback ") {
			t.Errorf("it was told all the same: %s", text)
		}
	}
}

// pi shows its model all of what a wait for several long answers returns.
func TestOwnWaitIsWhole(t *testing.T) {
	t.Parallel()
	w, m := newReal(t)
	c := w.client()
	p := c.run(obj{"network": "provider"})
	run := func(letter string) string {
		return callTool("run", obj{"prompt": "bash: head -c 9000 /dev/zero | tr '\\0' " + letter})
	}
	letters := []string{"X", "Y", "Z", "Q"}
	var ids, after, do []string
	for n, letter := range letters {
		ids = append(ids, fmt.Sprintf(`"<%d.agent_id>"`, n+1))
		after = append(after, ids[n]+":0")
		do = append(do, run(letter))
	}
	c.ask(p.ID, steps(append(do, fmt.Sprintf(`call: %s {"agent_ids":[%s],"until":"all","after":{%s},"timeout_seconds":300}`,
		mcpTool("wait"), strings.Join(ids, ","), strings.Join(after, ",")))...))
	text := lastResult(m.Requests())
	var got waited
	if err := json.Unmarshal([]byte(text), &got); err != nil || !got.Done || len(got.Agents) != len(letters) {
		t.Fatalf("the model sees %d bytes that are not whole, %v: %.500s", len(text), err, text)
	}
	for n, a := range got.Agents {
		if shown := strings.Count(str(a.Text), letters[n]); a.SettleCount != 1 || shown < 3000 {
			t.Errorf("agent %d: %d bytes of its text", n, shown)
		}
	}
}

// lastResult is the newest wait's result that a model was shown.
func lastResult(all []scripted.Request) (text string) {
	for _, r := range all {
		for _, msg := range r.Messages {
			if msg.Role == "tool" && strings.Contains(msg.Text, `"timed_out"`) {
				text = msg.Text
			}
		}
	}
	return text
}
