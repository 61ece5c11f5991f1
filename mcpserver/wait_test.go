package mcpserver_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-mcp/mcpserver"
	"pi-mcp/store"
)

// held starts an agent with a run that ends when the function is called.
func (w *world) held(s *mcp.ClientSession) (id string, release func()) {
	w.t.Helper()
	id = do(w.t, s, "run", args{"prompt": `![{"turn":"well","hold":"/tmp/go"}]`})["agent_id"].(string)
	return id, func() { must(w.t, os.WriteFile(filepath.Join(w.files.Paths(id).Tmp, "go"), nil, 0o600)) }
}

// waits counts the waits that are under way in this process.
func waits() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "agent.(*vigil).pause(")
}

// A client that gives up long before the time is up leaves nothing behind, however
// it does so, and its next call sees what has become of the agent.
func TestF44ClientGivesUp(t *testing.T) {
	w := newWorld(t)
	s := w.connect("")
	id, release := w.held(s)
	long := args{"agent_ids": []string{id}, "timeout_seconds": 300}
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		c := w.connect(version)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "wait", Arguments: long})
			ended <- err
		}()
		w.eventually("the wait", func() bool { return waits() == 1 })
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the call ends with %v", version, err)
		}
		w.eventually("the end of the cancelled wait", func() bool { return waits() == 0 })
	}
	c := w.wire()
	c.greet("2025-11-25")
	c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"wait","arguments":%s}}`, object(t, long)))
	w.eventually("the wait", func() bool { return waits() == 1 })
	must(t, c.conn.Close())
	w.eventually("the end of the wait of a client that is gone", func() bool { return waits() == 0 })
	look := args{"agent_ids": []string{id}, "timeout_seconds": 0}
	if out := do(t, s, "wait", look); out["timed_out"] != true || only(out)["state"] != "active" {
		t.Errorf("a look after that: %v", out)
	}
	release()
	out := do(t, s, "wait", args{"agent_ids": []string{id}, "after": args{id: 0}})
	if a := only(out); out["done"] != true || a["state"] != "idle" || a["last_assistant_text"] != "well" {
		t.Errorf("a second call: %v", out)
	}
}

// only is the one agent of a wait.
func only(out map[string]any) map[string]any { return out["agents"].([]any)[0].(map[string]any) }

// The server's stop ends a wait, in words.
func TestStopDuringWait(t *testing.T) {
	w := newWorld(t)
	s := w.connect("")
	id, _ := w.held(s)
	text := make(chan string)
	go func() {
		res, err := s.CallTool(context.WithoutCancel(t.Context()), &mcp.CallToolParams{Name: "wait", Arguments: args{"agent_ids": []string{id}}})
		if err != nil {
			text <- err.Error()
			return
		}
		text <- words(res)
	}()
	w.eventually("the wait", func() bool { return waits() == 1 })
	w.server.Stop()
	if got := <-text; !strings.Contains(got, "the server stopped during the call") {
		t.Errorf("the wait says %q", got)
	}
}

// A request that carries a token hears that the wait goes on. One without hears
// nothing, though it waits as long.
func TestWaitProgress(t *testing.T) {
	w := newWorld(t)
	w.server = mcpserver.New(mcpserver.Config{Supervisor: w.sup, Progress: time.Millisecond})
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			w.t = t
			heard := make(chan *mcp.ProgressNotificationParams, 1000)
			s := w.listen(version, heard)
			id, release := w.held(s)
			ended := make(chan error, 2)
			for _, token := range []any{nil, "a token"} {
				params := &mcp.CallToolParams{Name: "wait", Arguments: args{"agent_ids": []string{id}, "until": "all", "timeout_seconds": 3600}}
				if token != nil {
					params.SetProgressToken(token)
				}
				go func() {
					_, err := s.CallTool(t.Context(), params)
					ended <- err
				}()
				w.eventually("the wait", func() bool { return waits() > 0 })
			}
			last := 0.0
			for range 5 {
				p := <-heard
				if p.ProgressToken != "a token" || p.Progress <= last || p.Total != 3600 || p.Message != "0 of 1 agents are done" {
					t.Errorf("after %v: %+v", last, p)
				}
				last = p.Progress
			}
			release()
			must(t, <-ended)
			must(t, <-ended)
			for len(heard) > 0 {
				if p := <-heard; p.ProgressToken != "a token" {
					t.Errorf("heard %+v", p)
				}
			}
		})
	}
}

// listen is connect for a client that hears of progress.
func (w *world) listen(version string, heard chan<- *mcp.ProgressNotificationParams) *mcp.ClientSession {
	w.t.Helper()
	clientEnd, serverEnd := mcp.NewInMemoryTransports()
	_, err := w.server.MCP(w.who).Connect(w.t.Context(), serverEnd, nil)
	must(w.t, err)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "0"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			select {
			case heard <- r.Params:
			default: // nobody listens any more
			}
		},
	})
	session, err := client.Connect(w.t.Context(), clientEnd, &mcp.ClientSessionOptions{ProtocolVersion: version})
	must(w.t, err)
	w.t.Cleanup(func() { session.Close() })
	return session
}

// However much the agents have said, a wait for as many as are allowed fits. Of
// few, nothing is cut but what the contract says.
func TestWaitStaysBelowCap(t *testing.T) {
	w := newWorld(t)
	c := w.wire()
	c.greet("2025-11-25")
	text := strings.Repeat("\x01", 12<<10)
	ids := make([]string, 256)
	for i := range ids {
		ids[i] = uuid.UUID{0x01, 0xa0, 6: 0x70, 8: 0x80, 14: byte(i >> 8), 15: byte(i)}.String()
		w.insert(ids[i], func(a *store.Agent) {
			a.LastText, a.LastTextBytes, a.LastError = &text, int64(len(text)), &text
		})
	}
	for n, least := range map[int]int{1: 8 << 10, 10: 8 << 10, 256: 1 << 10} {
		var out struct {
			Agents []struct {
				Text  string `json:"last_assistant_text"`
				Bytes int    `json:"last_assistant_text_bytes"`
				Error string `json:"last_error"`
			}
		}
		c.sized("wait", object(t, args{"agent_ids": ids[:n]}), &out)
		if len(out.Agents) != n {
			t.Fatalf("%d agents, not %d", len(out.Agents), n)
		}
		for _, a := range out.Agents {
			if !strings.HasPrefix(text, a.Text) || len(a.Text) < least || len(a.Text) > 8<<10 || a.Bytes != len(text) || len(a.Error) < 500 {
				t.Fatalf("of %d: %d bytes of text, said to be %d, %d of the error", n, len(a.Text), a.Bytes, len(a.Error))
			}
		}
	}
}

// The values of after are integers in any spelling, too.
func TestAfterInAnySpelling(t *testing.T) {
	f := newFixture(t)
	for _, one := range []string{"1", "1.0", "1e0", "10E-1"} {
		out := f.taken("wait", fmt.Sprintf(`{"agent_ids":[%q],"after":{%q:%s},"timeout_seconds":0}`, f.id, f.id, one))
		if out["timed_out"] != true {
			t.Errorf("after %s is taken as %v", one, out)
		}
	}
}
