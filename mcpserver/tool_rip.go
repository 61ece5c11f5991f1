package mcpserver

import (
	"context"

	"pi-mcp/agent"
)

var ripTool = tool{
	name: "rip", title: "Stop an agent", repeatable: true,
	description: "Stop an agent's process and keep its record, session, logs and /tmp; resurrect continues it. Ripping a stopped agent changes nothing.",
}

// A familyIn names an agent, perhaps with those below it.
type familyIn struct {
	AgentID     string `json:"agent_id" jsonschema:"the agent"`
	Descendants *bool  `json:"descendants,omitempty" jsonschema:"also the agents that it started, and those that they started; default false"`
}

func (s *Server) rip(ctx context.Context, who agent.Caller, in familyIn) (agent.RipResult, error) {
	return s.sup.Rip(ctx, who, in.AgentID, or(in.Descendants))
}
