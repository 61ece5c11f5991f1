package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// args are the arguments of a call.
type args = map[string]any

// call calls a tool of a real client's session. The error is a protocol error.
func call(t testing.TB, s *mcp.ClientSession, tool string, arguments any) *mcp.CallToolResult {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	return res
}

// do calls a tool and wants a result, which it returns as JSON.
func do(t testing.TB, s *mcp.ClientSession, tool string, arguments any) map[string]any {
	t.Helper()
	res := call(t, s, tool, arguments)
	if res.IsError {
		t.Fatalf("%s of %v: %s", tool, arguments, words(res))
	}
	out, ok := res.StructuredContent.(map[string]any)
	if !ok {
		t.Fatalf("%s has the structured content %T", tool, res.StructuredContent)
	}
	return out
}

// words is the text of a result.
func words(res *mcp.CallToolResult) string {
	all := ""
	for _, c := range res.Content {
		if text, ok := c.(*mcp.TextContent); ok {
			all += text.Text
		}
	}
	return all
}

// A wire is a client that hides nothing.
type wire struct {
	t    testing.TB
	conn mcp.Connection
	ids  int
}

// wire connects a client that has said nothing yet.
func (w *world) wire() *wire {
	w.t.Helper()
	clientEnd, serverEnd := mcp.NewInMemoryTransports()
	_, err := w.server.MCP(w.who).Connect(w.t.Context(), serverEnd, nil)
	must(w.t, err)
	conn, err := clientEnd.Connect(w.t.Context())
	must(w.t, err)
	w.t.Cleanup(func() { conn.Close() })
	return &wire{t: w.t, conn: conn}
}

// greet does what a client of a version does first, and returns the answer.
func (c *wire) greet(version string) json.RawMessage {
	c.t.Helper()
	r := c.ask("initialize", fmt.Sprintf(
		`{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"raw","version":"0"}}`, version))
	if r.Error != nil {
		c.t.Fatal(r.Error)
	}
	c.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return r.Result
}

// ask sends a request and returns the response.
func (c *wire) ask(method, params string) *jsonrpc.Response {
	c.t.Helper()
	c.ids++
	c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, c.ids, method, params))
	for {
		m, err := c.conn.Read(c.t.Context())
		must(c.t, err)
		if r, ok := m.(*jsonrpc.Response); ok {
			return r
		}
	}
}

// call calls a tool with arguments as they are, and returns the answer as it
// came.
func (c *wire) call(tool, arguments string) *jsonrpc.Response {
	c.t.Helper()
	return c.ask("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments))
}

// refused calls a tool, wants a tool's error, and returns its text.
func (c *wire) refused(tool, arguments string) string {
	c.t.Helper()
	r := c.call(tool, arguments)
	if r.Error != nil {
		c.t.Fatalf("%s of %.200s is a protocol error: %v", tool, arguments, r.Error)
	}
	var res mcp.CallToolResult
	must(c.t, json.Unmarshal(r.Result, &res))
	if !res.IsError || res.StructuredContent != nil {
		c.t.Errorf("%s of %.200s is taken: %.200s", tool, arguments, r.Result)
	}
	return words(&res)
}

func (c *wire) write(message string) {
	c.t.Helper()
	m, err := jsonrpc.DecodeMessage([]byte(message))
	must(c.t, err)
	must(c.t, c.conn.Write(context.WithoutCancel(c.t.Context()), m))
}
