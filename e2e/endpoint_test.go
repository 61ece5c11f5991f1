package e2e

import (
	"strings"
	"testing"
)

// The model calls a tool of its own endpoint and finds its agent.
func TestEndpointOfModel(t *testing.T) {
	t.Parallel()
	w, m := newReal(t)
	c := w.client()
	a := c.run(nil)
	answer := c.ask(a.ID, callTool("list", obj{})).text()
	has(t, "the agent's list", answer, a.ID)
	var names []string
	for _, tool := range m.Requests()[0].Tools {
		names = append(names, tool.Name)
	}
	has(t, "the tools that the model is told of", strings.Join(names, " "), "mcp__pi_mcp__list", "mcp__pi_mcp__run")
	t.Log(answer, names)
}
