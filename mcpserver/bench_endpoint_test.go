package mcpserver_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-mcp/agent"
)

// BenchmarkEndpoint is get_info as a caged agent calls it, with all that is in front
// of the tools, against an echo of the bare SDK over HTTP that is given and returns
// as much. Target: 1.3 times that.
func BenchmarkEndpoint(b *testing.B) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		b.Run(version, func(b *testing.B) {
			a := newWorld(b).caged()
			ours := a.session(version)
			info := words(call(b, ours, "get_info", args{"agent_id": a.id}))
			plain := bareHTTP(b, version)
			var bareTook, oursTook []time.Duration
			for b.Loop() { // in turn, so that the machine's moods meet both
				bareTook = append(bareTook, took(func() { call(b, plain, "echo", args{"text": info}) }))
				oursTook = append(oursTook, took(func() { call(b, ours, "get_info", args{"agent_id": a.id}) }))
			}
			b.ReportMetric(float64(middle(bareTook).Microseconds())/1000, "bare-ms")
			b.ReportMetric(float64(middle(oursTook).Microseconds())/1000, "ours-ms")
			b.ReportMetric(float64(middle(oursTook))/float64(middle(bareTook)), "ratio")
			b.ReportMetric(1.3, "target-ratio")
		})
	}
}

// bareHTTP returns a session over HTTP with a server that has one tool, made with the
// SDK's own means.
func bareHTTP(b *testing.B, version string) *mcp.ClientSession {
	b.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "0"}, nil)
	type echo struct {
		Text string `json:"text"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, in echo) (*mcp.CallToolResult, echo, error) {
		return nil, in, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: version == "2026-07-28"}))
	b.Cleanup(web.Close)
	s, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "0"}, nil).Connect(b.Context(),
		&mcp.StreamableClientTransport{Endpoint: web.URL}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	must(b, err)
	b.Cleanup(func() { s.Close() })
	return s
}

// BenchmarkEndpointMake is what the endpoint costs each start of an agent. Target: 1 ms.
func BenchmarkEndpointMake(b *testing.B) {
	w := newWorld(b)
	who := agent.Caller{Group: w.who.Group, Agent: newID(b)}
	var all []time.Duration
	for b.Loop() {
		all = append(all, took(func() {
			_, end := w.server.Endpoint(who)
			end()
		}))
	}
	b.ReportMetric(float64(middle(all).Microseconds())/1000, "median-ms")
	b.ReportMetric(1, "target-ms")
}
