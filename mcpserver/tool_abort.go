package mcpserver

import (
	"context"

	"pi-mcp/agent"
)

var abortTool = tool{
	name: "abort", title: "Abort a run", repeatable: true,
	description: "End what an agent is doing and keep its process. Messages that wait in its queue are taken out and returned, unless clear_queue is false.",
	args:        map[string]arg{"clear_queue": {fallback: true}},
}

type abortIn struct {
	AgentID    string `json:"agent_id" jsonschema:"the agent, as run or list returned it"`
	ClearQueue *bool  `json:"clear_queue,omitempty" jsonschema:"also drop queued messages"`
}

func (s *Server) abort(ctx context.Context, who agent.Caller, in abortIn) (agent.AbortResult, error) {
	r, err := s.sup.Abort(ctx, who, in.AgentID, in.ClearQueue == nil || *in.ClearQueue)
	r.ClearedTruncated = cutAll(r.Cleared, maxResult-64<<10) || r.ClearedTruncated
	return r, err
}
