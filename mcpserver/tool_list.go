package mcpserver

import (
	"context"

	"pi-mcp/agent"
)

var listTool = tool{
	name: "list", title: "List agents", reads: true,
	description: "List the agents that you can see, newest first, with state and counters. Without limit, all that fit into one result.",
	args: map[string]arg{
		"states": {enum: []string{"active", "idle", "ripped", "exited"}},
		"limit":  between(1, 5000),
	},
}

type listIn struct {
	States []agent.State `json:"states,omitempty" jsonschema:"only agents in one of these states"`
	Limit  *int          `json:"limit,omitempty" jsonschema:"at most so many agents"`
	Cursor *string       `json:"cursor,omitempty" jsonschema:"next_cursor of the page before"`
}

func (s *Server) list(ctx context.Context, who agent.Caller, in listIn) (agent.ListResult, error) {
	return s.sup.List(ctx, who, agent.ListRequest{
		States: in.States, Limit: or(in.Limit), Cursor: or(in.Cursor),
		Bytes: maxResult/3 - 4<<10, // each byte goes out twice, and the second time perhaps escaped
	})
}

// or is what p points to, or the zero value.
func or[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
