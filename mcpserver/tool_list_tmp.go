package mcpserver

import (
	"context"

	"pi-mcp/agent"
	"pi-mcp/artifacts"
)

// defaultEntries is how many entries list_tmp returns when it is not told.
const defaultEntries = 1000

var listTmpTool = tool{
	name: "list_tmp", title: "List /tmp", reads: true,
	description: "List files in an agent's own /tmp with type, size and time.",
	args: map[string]arg{
		"path": {fallback: ""}, "recursive": {fallback: true}, "max_entries": {fallback: defaultEntries},
	},
}

type listTmpIn struct {
	AgentID    string  `json:"agent_id" jsonschema:"the agent, as run or list returned it"`
	Path       *string `json:"path,omitempty" jsonschema:"directory, relative to /tmp"`
	Recursive  *bool   `json:"recursive,omitempty" jsonschema:"with everything below"`
	MaxEntries *int64  `json:"max_entries,omitempty" jsonschema:"at most so many; taken as 1 to 5000"`
}

type listTmpOut struct {
	AgentID string `json:"agent_id"`
	artifacts.Listing
}

func (s *Server) listTmp(ctx context.Context, who agent.Caller, in listTmpIn) (listTmpOut, error) {
	most := int64(defaultEntries)
	if in.MaxEntries != nil {
		most = min(max(*in.MaxEntries, 1), artifacts.MaxEntries)
	}
	l, err := s.sup.ListTmp(ctx, who, in.AgentID, or(in.Path), in.Recursive == nil || *in.Recursive, int(most))
	return listTmpOut{AgentID: in.AgentID, Listing: l}, err
}
