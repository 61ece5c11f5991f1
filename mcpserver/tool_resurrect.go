package mcpserver

import (
	"context"

	"pi-mcp/agent"
)

var resurrectTool = tool{
	name: "resurrect", title: "Resurrect an agent",
	description: "Start a ripped or exited agent again from its session, with the settings it was first given, and optionally send it a message.",
}

type resurrectIn struct {
	AgentID string  `json:"agent_id" jsonschema:"the agent, as run or list returned it"`
	Prompt  *string `json:"prompt,omitempty" jsonschema:"a message to begin a run with; without it the agent is idle"`
}

func (s *Server) resurrect(ctx context.Context, who agent.Caller, in resurrectIn) (agent.ResurrectResult, error) {
	return s.sup.Resurrect(ctx, who, in.AgentID, in.Prompt)
}
