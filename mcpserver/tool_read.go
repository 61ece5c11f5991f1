package mcpserver

import (
	"context"

	"pi-mcp/agent"
	"pi-mcp/artifacts"
)

var streams = []string{string(artifacts.Stdout), string(artifacts.Errors)}

// rangeArgs bound the arguments of an artifacts.Range.
var rangeArgs = map[string]arg{
	"lines_from": from(0), "lines_to": from(0), "bytes_from": from(0), "bytes_to": from(0), "max_lines": from(1),
	"max_bytes": {min: new(1.0), max: new(float64(artifacts.MaxBytes)), fallback: artifacts.DefaultMaxBytes},
}

var readTool = tool{
	name: "read", title: "Read a log", reads: true,
	description: "Read a part of an agent's log: stdout is pi's event stream, one JSON record a line; errors is its stderr. By lines or by bytes; next_line and next_offset continue.",
	args:        with(rangeArgs, "stream", arg{enum: streams, fallback: "stdout"}),
}

type readIn struct {
	AgentID string            `json:"agent_id" jsonschema:"the agent, as run or list returned it"`
	Stream  *artifacts.Stream `json:"stream,omitempty" jsonschema:"which log"`
	artifacts.Range
}

type readOut struct {
	AgentID string           `json:"agent_id"`
	Stream  artifacts.Stream `json:"stream"`
	artifacts.Chunk
}

func (s *Server) read(ctx context.Context, who agent.Caller, in readIn) (readOut, error) {
	log := stream(in.Stream)
	c, err := s.sup.Read(ctx, who, in.AgentID, log, in.Range)
	return readOut{AgentID: in.AgentID, Stream: log, Chunk: c}, err
}

func stream(s *artifacts.Stream) artifacts.Stream {
	if s == nil {
		return artifacts.Stdout
	}
	return *s
}

// with is args and one more.
func with(args map[string]arg, name string, a arg) map[string]arg {
	all := map[string]arg{name: a}
	for k, v := range args {
		all[k] = v
	}
	return all
}
