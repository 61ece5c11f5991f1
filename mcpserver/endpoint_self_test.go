package mcpserver_test

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What an agent asks of itself is refused in words, whatever would act on it; it reads
// itself, and lives on.
func TestEndpointNotItself(t *testing.T) {
	w := newWorld(t)
	a := w.caged()
	s := a.session("2025-11-25")
	ask := func(tool string, more args) (string, bool) {
		t.Helper()
		res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: more})
		must(t, err)
		return res.Content[0].(*mcp.TextContent).Text, res.IsError
	}
	for tool, more := range map[string]args{
		"rip": {"agent_id": a.id}, "remove": {"agent_id": a.id}, "abort": {"agent_id": a.id}, "resurrect": {"agent_id": a.id},
		"send_message": {"agent_id": a.id, "message": "hello"}, "wait": {"agent_ids": []string{a.id}},
	} {
		text, refused := ask(tool, more)
		if !refused || !strings.Contains(text, "your own") && !strings.Contains(text, "yourself") {
			t.Errorf("%s: %s", tool, text)
		}
	}
	for tool, more := range map[string]args{
		"get_info": {"agent_id": a.id}, "read": {"agent_id": a.id}, "list_tmp": {"agent_id": a.id}, "list": nil,
		"grep": {"agent_id": a.id, "args": []string{"response"}},
	} {
		if text, refused := ask(tool, more); refused || !strings.Contains(text, a.id) {
			t.Errorf("%s: %s", tool, text)
		}
	}
}
