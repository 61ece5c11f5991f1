package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-mcp/agent"
)

// A tool is what a client is told about one.
type tool struct {
	name        string
	title       string
	description string
	reads       bool           // changes nothing
	destroys    bool           // what it ends cannot be had back
	repeatable  bool           // a second call with the same arguments changes nothing more
	args        map[string]arg // what the input's type does not say
}

// An arg narrows one argument, or the values of one that is an object.
type arg struct {
	enum     []string
	min, max *float64
	fallback any // the default, as clients are told it
}

// between bounds a number.
func between(least, most float64) arg { return arg{min: &least, max: &most} }

// from bounds a number from below.
func from(least float64) arg { return arg{min: &least} }

// add offers a tool that needs nothing of the request but its arguments.
func add[In, Out any](s *Server, m *mcp.Server, who callerOf, t tool, do func(context.Context, agent.Caller, In) (Out, error)) {
	addCall(s, m, who, t, func(ctx context.Context, _ *mcp.CallToolRequest, who agent.Caller, in In) (Out, error) {
		return do(ctx, who, in)
	})
}

// addCall offers a tool. It owns everything that is the same for all of them: the
// schemas, who calls, arguments into a value, the value into a result, errors
// into words.
func addCall[In, Out any](s *Server, m *mcp.Server, who callerOf, t tool, do func(context.Context, *mcp.CallToolRequest, agent.Caller, In) (Out, error)) {
	told := describe[In, Out](s, t)
	m.AddTool(told.tool, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var value In
		if err := decode(told.in, req.Params.Arguments, &value); err != nil {
			return failure(err), nil
		}
		out, err := do(ctx, req, who(req), value)
		if err != nil {
			return failure(s.explain(t.name, err)), nil
		}
		return result(out)
	})
}

// A description is what clients are told about a tool. Nobody changes it.
type description struct {
	tool *mcp.Tool
	in   *jsonschema.Schema
}

// describe makes a description once for each server: the schemas take a while, and
// every caged agent that starts is served by an *mcp.Server of its own. The input's
// goes to the SDK as text, which looks at it anew for each of these and for each call.
func describe[In, Out any](s *Server, t tool) description {
	if made, ok := s.made.Load(t.name); ok {
		return made.(description)
	}
	in := inputSchema[In](t.args)
	text, err := json.Marshal(in)
	if err != nil {
		panic(err) // a mistake in this package that every test meets
	}
	made, _ := s.made.LoadOrStore(t.name, description{in: in, tool: &mcp.Tool{
		Name: t.name, Title: t.title, Description: t.description,
		InputSchema: json.RawMessage(text), OutputSchema: outputSchema[Out](),
		Annotations: &mcp.ToolAnnotations{
			Title: t.title, ReadOnlyHint: t.reads, IdempotentHint: t.repeatable || t.reads,
			DestructiveHint: &t.destroys, OpenWorldHint: new(t.name == "run"),
		},
	}})
	return made.(description)
}

// result is a value as structured content and the same JSON as text.
func result(out any) (*mcp.CallToolResult, error) {
	text, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	if n := wireSize(text); n > maxResult {
		return failure(fmt.Errorf("the result would take %d bytes, the limit is %d: ask for less", n, maxResult)), nil
	}
	return &mcp.CallToolResult{
		StructuredContent: json.RawMessage(text),
		Content:           []mcp.Content{&mcp.TextContent{Text: string(text)}},
	}, nil
}

// inputSchema is the schema of an argument struct. No union types: some clients
// refuse them, so an optional argument is one that may be left out. That null is
// accepted for it all the same is decode's business.
func inputSchema[In any](args map[string]arg) *jsonschema.Schema {
	s := mustSchema[In]()
	for name, p := range s.Properties {
		p.Types = slices.DeleteFunc(p.Types, func(t string) bool { return t == "null" })
		if len(p.Types) == 1 {
			p.Type, p.Types = p.Types[0], nil
		}
		narrow(p, args[name])
	}
	for name := range args {
		if s.Properties[name] == nil {
			panic("no argument " + name)
		}
	}
	return s
}

func narrow(p *jsonschema.Schema, a arg) {
	to := p
	if p.Items != nil {
		to = p.Items
	}
	for _, v := range a.enum {
		to.Enum = append(to.Enum, v)
	}
	number := p
	if p.AdditionalProperties != nil { // an object of numbers
		number = p.AdditionalProperties
	}
	number.Minimum, number.Maximum = a.min, a.max
	if a.fallback != nil {
		text, err := json.Marshal(a.fallback)
		if err != nil {
			panic(err)
		}
		p.Default = text
	}
}

func outputSchema[Out any]() *jsonschema.Schema { return mustSchema[Out]() }

// mustSchema panics for a type without a schema, which is a mistake in this
// package that every test meets.
func mustSchema[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		panic(err)
	}
	return s
}
