package mcpserver

import (
	"context"

	"pi-mcp/agent"
	"pi-mcp/artifacts"
)

var readTmpTool = tool{
	name: "read_tmp", title: "Read from /tmp", reads: true,
	description: "Read a part of a file in an agent's own /tmp, by lines or by bytes. What is not UTF-8 comes as base64.",
	args:        rangeArgs,
}

type readTmpIn struct {
	AgentID string `json:"agent_id" jsonschema:"the agent, as run or list returned it"`
	Path    string `json:"path" jsonschema:"file, relative to /tmp"`
	artifacts.Range
}

type readTmpOut struct {
	AgentID string `json:"agent_id"`
	artifacts.Chunk
}

func (s *Server) readTmp(ctx context.Context, who agent.Caller, in readTmpIn) (readTmpOut, error) {
	c, err := s.sup.ReadTmp(ctx, who, in.AgentID, in.Path, in.Range)
	return readTmpOut{AgentID: in.AgentID, Chunk: c}, err
}
