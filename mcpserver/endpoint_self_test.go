package mcpserver_test

import (
	"errors"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-mcp/agent"
)

// An agent that ends itself ends: its call does not wait for its own end.
func TestEndpointEndsItself(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		for _, tool := range []string{"rip", "remove"} {
			t.Run(tool+" "+version, func(t *testing.T) {
				w := newWorld(t)
				a := w.caged()
				s := a.session(version)
				_, _ = s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args{"agent_id": a.id}}) // perhaps cut off
				w.eventually("its end", func() bool {
					i, err := w.sup.Info(t.Context(), w.who, a.id)
					return errors.Is(err, agent.ErrNotFound) || err == nil && i.State == agent.Ripped && i.PID == nil
				})
				atRest(t, w)
			})
		}
	}
}
