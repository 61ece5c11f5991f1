package mcpserver

import (
	"context"

	"pi-mcp/agent"
	"pi-mcp/agent/pi"
	"pi-mcp/cage"
)

var runTool = tool{
	name: "run", title: "Run an agent",
	description: "Start a coding agent in a sandbox and wait until it answers. It sees nothing of the host but the paths in write and read. Without prompt it is idle and waits for send_message.",
	args: map[string]arg{
		"context_size": from(20000),
		"thinking":     {enum: pi.ThinkingLevels()},
		"write":        {fallback: []string{}},
		"read":         {fallback: []string{}},
		"denied":       {fallback: []string{}},
	},
}

type runIn struct {
	Provider        *string  `json:"provider,omitempty" jsonschema:"name of the model provider, as pi knows it; default: the server's"`
	Model           *string  `json:"model,omitempty" jsonschema:"name of the model; default: the server's"`
	ContextSize     *int64   `json:"context_size,omitempty" jsonschema:"tokens after which pi compacts the conversation; default: the model's own"`
	Write           []string `json:"write,omitempty" jsonschema:"absolute host paths that the agent may change, at the same paths in the sandbox"`
	Read            []string `json:"read,omitempty" jsonschema:"absolute host paths that the agent may read"`
	Denied          []string `json:"denied,omitempty" jsonschema:"absolute host paths inside the others that it may not see"`
	CallbackAgentID *string  `json:"callback_agent_id,omitempty" jsonschema:"an agent that gets a message when this one settles or ends; an agent passes its own AGENT_ID to be called back"`
	AccessToken     *string  `json:"access_token,omitempty" jsonschema:"puts the agent into the group of this token, made if it is new; you then see nothing of it but its callbacks"`
	Prompt          *string  `json:"prompt,omitempty" jsonschema:"the first message"`
	Name            *string  `json:"name,omitempty" jsonschema:"a name for people; default provider/model"`
	Cwd             *string  `json:"cwd,omitempty" jsonschema:"working directory, inside write or read; default the agent's own /tmp"`
	Network         *string  `json:"network,omitempty" jsonschema:"what it may reach: provider (its model only), internet (public addresses), host (this machine's own network), or hosts such as github.com, *.npmjs.org:443; default: the server's"`
	Thinking        *string  `json:"thinking,omitempty" jsonschema:"how much the model thinks; default: pi's own"`
}

func (s *Server) run(ctx context.Context, who agent.Caller, in runIn) (agent.RunResult, error) {
	for _, f := range []struct {
		name  string
		value *string
	}{{"provider", in.Provider}, {"model", in.Model}, {"name", in.Name}, {"cwd", in.Cwd},
		{"network", in.Network}, {"callback_agent_id", in.CallbackAgentID}, {"access_token", in.AccessToken}} {
		if f.value != nil && *f.value == "" {
			return agent.RunResult{}, &agent.ArgError{Arg: f.name, Reason: "must not be empty: leave it out for the default"}
		}
	}
	return s.sup.Run(ctx, who, agent.RunRequest{
		Provider: or(in.Provider), Model: or(in.Model), ContextSize: in.ContextSize,
		Thinking: or(in.Thinking), Name: or(in.Name), Cwd: or(in.Cwd), Network: or(in.Network),
		Grants:   cage.Grants{Write: in.Write, Read: in.Read, Denied: in.Denied},
		Callback: or(in.CallbackAgentID), AccessToken: or(in.AccessToken), Prompt: in.Prompt,
	})
}
