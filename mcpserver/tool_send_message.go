package mcpserver

import (
	"context"

	"pi-mcp/agent"
)

var sendMessageTool = tool{
	name: "send_message", title: "Send a message",
	description: "Send a message to an agent. An idle one starts a run; a running one gets it when the run is done (follow_up) or before its next step (steer). Returns at once; see get_info for the outcome.",
	args: map[string]arg{
		"mode":      {enum: []string{string(agent.FollowUp), string(agent.Steer)}, fallback: agent.FollowUp},
		"resurrect": {fallback: false},
	},
}

type sendMessageIn struct {
	AgentID   string      `json:"agent_id" jsonschema:"the agent, as run or list returned it"`
	Message   string      `json:"message" jsonschema:"what to tell it"`
	Mode      *agent.Mode `json:"mode,omitempty" jsonschema:"when a running agent gets it"`
	Resurrect *bool       `json:"resurrect,omitempty" jsonschema:"start a stopped agent first"`
}

func (s *Server) sendMessage(ctx context.Context, who agent.Caller, in sendMessageIn) (agent.SendResult, error) {
	mode := agent.FollowUp
	if in.Mode != nil {
		mode = *in.Mode
	}
	return s.sup.Send(ctx, who, in.AgentID, in.Message, mode, or(in.Resurrect))
}
