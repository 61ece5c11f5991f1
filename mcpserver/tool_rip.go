package mcpserver

import (
	"context"

	"pi-mcp/agent"
)

var ripTool = tool{
	name: "rip", title: "Stop an agent", repeatable: true,
	description: "Stop an agent's process and keep its record, session, logs and /tmp; resurrect continues it. Ripping a stopped agent changes nothing.",
}

func (s *Server) rip(ctx context.Context, who agent.Caller, in agentIn) (agent.RipResult, error) {
	return s.sup.Rip(ctx, who, in.AgentID)
}
