package mcpserver

import (
	"context"

	"pi-mcp/agent"
)

var getInfoTool = tool{
	name: "get_info", title: "Get agent info", reads: true,
	description: "Everything about one agent: state, counters, paths of its artifacts, last error, last answer.",
}

// agentIn is the input of tools that only need an agent.
type agentIn struct {
	AgentID string `json:"agent_id" jsonschema:"the agent, as run or list returned it"`
}

func (s *Server) getInfo(ctx context.Context, who agent.Caller, in agentIn) (agent.Info, error) {
	return s.sup.Info(ctx, who, in.AgentID)
}
