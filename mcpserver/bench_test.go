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
	b.Run("bare", func(b *testing.B) { callLoop(b, bare(b, ready), "list", arguments) })
	b.Run("ours", func(b *testing.B) { callLoop(b, w.connect(""), "list", arguments) })
}

// callLoop measures calls that a client makes one after the other.
func callLoop(b *testing.B, s *mcp.ClientSession, tool string, arguments args) {
	for b.Loop() {
		if res := call(b, s, tool, arguments); res.IsError {
			b.Fatal(words(res))
		}
	}
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
	b.Run("direct", func(b *testing.B) {
		pi, settled := w.direct(b)
		median(b, func() {
			var d struct{ Disposition string }
			must(b, pi.Call(b.Context(), "prompt", map[string]any{"message": "hello", "streamingBehavior": "followUp"}, &d))
		}, func() { <-settled })
	})
	b.Run("ours", func(b *testing.B) {
		id := do(b, s, "run", nil)["agent_id"].(string)
		n := int64(0)
		median(b, func() {
			do(b, s, "send_message", args{"agent_id": id, "message": "hello"})
		}, func() { n++; w.settled(id, n) })
	})
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

// median reports the median of how long do takes, without what comes after it.
func median(b *testing.B, do, after func()) {
	var all []time.Duration
	for b.Loop() {
		start := time.Now()
		do()
		all = append(all, time.Since(start))
		after()
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "median-µs")
}
