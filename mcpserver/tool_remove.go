package mcpserver

import (
	"context"

	"pi-mcp/agent"
)

var removeTool = tool{
	name: "remove", title: "Remove an agent", destroys: true,
	description: "Stop an agent and delete its record and everything in its directory: session, logs, /tmp. What it wrote into granted paths stays.",
}

func (s *Server) remove(ctx context.Context, who agent.Caller, in familyIn) (agent.RemoveResult, error) {
	return s.sup.Remove(ctx, who, in.AgentID, or(in.Descendants))
}
