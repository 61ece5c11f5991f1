package artifacts_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-mcp/artifacts"
)

// The results as a server embeds them, beside its own fields.
type chunkResult struct {
	AgentID string `json:"agent_id"`
	artifacts.Chunk
}

type listResult struct {
	AgentID string `json:"agent_id"`
	artifacts.Listing
}

// The SDK infers the schema of a result from its type and checks every result
// against it; these are the fields that a client then sees.
func TestResultsOverMCP(t *testing.T) {
	d, p := newAgent(t)
	write(t, p.Tmp+"/file", "one\ntwo\n\xff\n")
	server := mcp.NewServer(&mcp.Implementation{Name: "test"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "read_tmp"},
		func(ctx context.Context, _ *mcp.CallToolRequest, r artifacts.Range) (*mcp.CallToolResult, chunkResult, error) {
			c, err := d.ReadTmp(ctx, "file", r)
			return nil, chunkResult{id, c}, err
		})
	mcp.AddTool(server, &mcp.Tool{Name: "list_tmp"},
		func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, listResult, error) {
			l, err := d.ListTmp(ctx, "", true, 1000)
			return nil, listResult{id, l}, err
		})
	here, there := mcp.NewInMemoryTransports()
	_, err := server.Connect(t.Context(), here, nil)
	check(t, err)
	client, err := mcp.NewClient(&mcp.Implementation{Name: "test"}, nil).Connect(t.Context(), there, nil)
	check(t, err)
	defer client.Close()

	both := []string{
		"agent_id", "content", "encoding", "eof", "line_count", "max_bytes", "max_lines", "mode", "next_offset", "path",
		"size", "truncated_regions", "warnings",
	}
	for _, c := range []struct {
		tool   string
		args   map[string]any
		fields []string
		nulls  []string
	}{
		{"read_tmp", map[string]any{}, append([]string{"lines_from", "lines_to", "next_line"}, both...), []string{"lines_to", "max_lines"}},
		{"read_tmp", map[string]any{"lines_from": 1, "lines_to": 2, "max_lines": 1}, append([]string{"lines_from", "lines_to", "next_line"}, both...), nil},
		{"read_tmp", map[string]any{"bytes_from": 0}, append([]string{"bytes_from", "bytes_to"}, both...), []string{"bytes_to", "max_lines"}},
		{"read_tmp", map[string]any{"bytes_to": 99}, append([]string{"bytes_from", "bytes_to"}, both...), []string{"max_lines"}},
		{"read_tmp", map[string]any{"max_bytes": 1}, append([]string{"lines_from", "lines_to", "next_line"}, both...), []string{"lines_to", "max_lines"}},
		{"list_tmp", map[string]any{}, []string{"agent_id", "count", "entries", "path", "recursive", "truncated", "warnings"}, nil},
	} {
		result, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: c.tool, Arguments: c.args})
		check(t, err)
		if result.IsError {
			t.Fatalf("%v: %+v", c.args, result.Content[0])
		}
		raw, err := json.Marshal(result.StructuredContent)
		check(t, err)
		var got map[string]any
		check(t, json.Unmarshal(raw, &got))
		var fields, nulls []string
		for field, value := range got {
			fields = append(fields, field)
			if value == nil {
				nulls = append(nulls, field)
			}
		}
		slices.Sort(fields)
		slices.Sort(nulls)
		slices.Sort(c.fields)
		if diff := cmp.Diff(c.fields, fields) + cmp.Diff(c.nulls, nulls); diff != "" {
			t.Errorf("%v: %s", c.args, diff)
		}
	}
}
