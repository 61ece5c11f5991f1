package mcpserver

import (
	"context"

	"pi-mcp/agent"
)

var grepTmpTool = tool{
	name: "grep_tmp", title: "Grep /tmp", reads: true,
	description: "Run grep in an agent's own /tmp. args are grep's own arguments, for example [\"-rn\", \"needle\"]; path names one file to search.",
	args:        map[string]arg{"cwd": {fallback: ""}},
}

type grepTmpIn struct {
	AgentID string   `json:"agent_id" jsonschema:"the agent, as run or list returned it"`
	Args    []string `json:"args" jsonschema:"options and pattern"`
	Cwd     *string  `json:"cwd,omitempty" jsonschema:"directory to run in, relative to /tmp"`
	Path    *string  `json:"path,omitempty" jsonschema:"file to search, relative to cwd"`
}

func (s *Server) grepTmp(ctx context.Context, who agent.Caller, in grepTmpIn) (agent.GrepResult, error) {
	res, err := s.sup.GrepTmp(ctx, who, in.AgentID, in.Args, or(in.Cwd), or(in.Path))
	clipGrep(&res)
	return res, err
}
