package mcpserver_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-mcp/agent"
	"pi-mcp/agent/pirpc"
	"pi-mcp/store"
)

// BenchmarkList is the newest 200 of 10,000 agents as a client gets them, against
// a tool of the bare SDK that returns the same list ready made. Target: 1.3 times
// that.
func BenchmarkList(b *testing.B) {
	w := newWorld(b)
	stamp := time.UnixMilli(1_700_000_000_000)
	for range 10_000 {
		w.insert(newID(b), func(a *store.Agent) {
			a.Messages, a.Tokens, a.Cost = store.Messages{User: 12, Assistant: 34, ToolCalls: 56}, store.Tokens{Input: 123_456, Output: 7_890, Total: 131_346}, 1.25
			a.ContextSize, a.StdoutBytes, a.RippedAt = 128_000, 1_234_567, &stamp
		})
	}
	arguments := args{"limit": 200}
	ready, err := w.sup.List(b.Context(), w.who, agent.ListRequest{Limit: 200})
	must(b, err)
	plain, ours := bare(b, ready), w.connect("")
	var bareTook, oursTook []time.Duration
	for b.Loop() { // in turn, so that the machine's moods meet both
		bareTook = append(bareTook, took(func() { listOnce(b, plain, arguments) }))
		oursTook = append(oursTook, took(func() { listOnce(b, ours, arguments) }))
	}
	b.ReportMetric(float64(middle(bareTook).Microseconds())/1000, "bare-ms")
	b.ReportMetric(float64(middle(oursTook).Microseconds())/1000, "ours-ms")
	b.ReportMetric(float64(middle(oursTook))/float64(middle(bareTook)), "ratio")
	b.ReportMetric(1.3, "target-ratio")
}

func listOnce(b *testing.B, s *mcp.ClientSession, arguments args) {
	if res := call(b, s, "list", arguments); res.IsError {
		b.Fatal(words(res))
	}
}

func took(do func()) time.Duration {
	start := time.Now()
	do()
	return time.Since(start)
}

func middle(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// bare returns a session with a server that has one tool, made with the SDK's own
// means, which returns out.
func bare[Out any](b *testing.B, out Out) *mcp.ClientSession {
	b.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "bare", Version: "0"}, nil)
	type in struct {
		Limit int `json:"limit,omitempty"`
	}
	mcp.AddTool(server, &mcp.Tool{Name: "list"}, func(context.Context, *mcp.CallToolRequest, in) (*mcp.CallToolResult, Out, error) {
		return nil, out, nil
	})
	clientEnd, serverEnd := mcp.NewInMemoryTransports()
	_, err := server.Connect(b.Context(), serverEnd, nil)
	must(b, err)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "0"}, nil).Connect(b.Context(), clientEnd, nil)
	must(b, err)
	b.Cleanup(func() { session.Close() })
	return session
}

// BenchmarkSend is a message to an idle agent, from the call to the answer, against
// the same prompt given to a pi without a cage and a server. Each begins a run,
// whose end is waited for and not measured. Target: 1 ms more.
func BenchmarkSend(b *testing.B) {
	w := newWorld(b)
	s := w.connect("")
	pi, settled := w.direct(b)
	id := do(b, s, "run", nil)["agent_id"].(string)
	var direct, ours []time.Duration
	for n := int64(1); b.Loop(); n++ {
		direct = append(direct, took(func() {
			var d struct{ Disposition string }
			must(b, pi.Call(b.Context(), "prompt", map[string]any{"message": "hello", "streamingBehavior": "followUp"}, &d))
		}))
		<-settled
		ours = append(ours, took(func() { do(b, s, "send_message", args{"agent_id": id, "message": "hello"}) }))
		w.settled(id, n)
	}
	b.ReportMetric(float64(middle(direct).Microseconds())/1000, "direct-ms")
	b.ReportMetric(float64(middle(ours)-middle(direct))/1e6, "added-ms")
	b.ReportMetric(1, "target-ms")
}

// direct starts a fake pi outside of any cage and talks to it. The channel tells
// of the end of runs.
func (w *world) direct(b *testing.B) (pi *pirpc.Client, settled <-chan struct{}) {
	b.Helper()
	cmd := exec.Command(filepath.Join(w.dir, "pi", "pi"), "--mode", "rpc", "--provider", "fake", "--model", "plain",
		"--session", filepath.Join(b.TempDir(), "session.jsonl"))
	in, err := cmd.StdinPipe()
	must(b, err)
	out, err := cmd.StdoutPipe()
	must(b, err)
	must(b, cmd.Start())
	ends := make(chan struct{}, 1)
	client := pirpc.New(pirpc.Config{In: in, Out: out, On: func(r pirpc.Record) {
		if r.Type == "agent_settled" {
			ends <- struct{}{}
		}
	}})
	b.Cleanup(func() {
		client.CloseInput()
		<-client.Done()
		must(b, cmd.Wait())
	})
	return client, ends
}
