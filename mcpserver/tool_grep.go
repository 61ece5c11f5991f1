package mcpserver

import (
	"context"

	"pi-mcp/agent"
	"pi-mcp/artifacts"
)

var grepTool = tool{
	name: "grep", title: "Grep a log", reads: true,
	description: "Run grep over an agent's log. args are grep's own arguments without the file, for example [\"-n\", \"error\"]. Exit code 1 means that nothing was found.",
	args:        map[string]arg{"stream": {enum: streams, fallback: "stdout"}},
}

type grepIn struct {
	AgentID string            `json:"agent_id" jsonschema:"the agent, as run or list returned it"`
	Args    []string          `json:"args" jsonschema:"options and pattern"`
	Stream  *artifacts.Stream `json:"stream,omitempty" jsonschema:"which log"`
}

func (s *Server) grep(ctx context.Context, who agent.Caller, in grepIn) (agent.LogGrepResult, error) {
	res, err := s.sup.Grep(ctx, who, in.AgentID, stream(in.Stream), in.Args)
	clipGrep(&res.GrepResult)
	return res, err
}

// clipGrep makes what grep printed fit into a result. Only output with many
// characters that JSON has to escape is too much.
func clipGrep(r *agent.GrepResult) {
	const rest = 3 << 20 // for the arguments, which are there twice, and stderr
	whole := len(r.Stdout)
	r.Stdout = cut(r.Stdout, maxResult-rest)
	r.StdoutTruncated = r.StdoutTruncated || len(r.Stdout) < whole
}
