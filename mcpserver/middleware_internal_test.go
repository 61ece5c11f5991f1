package mcpserver

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-mcp/agent"
)

// A syncBuffer is a log that calls write to from several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

type nothing struct{}

// An acts is what the tool "act" does in a call.
type acts func(context.Context) error

// actor returns a session with a server whose tool "act" does what it is told,
// and the server's log.
func actor(t *testing.T, do acts) (*Server, *mcp.ClientSession, *syncBuffer) {
	t.Helper()
	log := new(syncBuffer)
	s := New(Config{Log: slog.New(slog.NewTextHandler(log, nil))})
	m := s.MCP(agent.Caller{Group: "default"})
	add(s, m, func(*mcp.CallToolRequest) agent.Caller { return agent.Caller{} }, tool{name: "act"},
		func(ctx context.Context, _ agent.Caller, _ nothing) (nothing, error) { return nothing{}, do(ctx) })
	clientEnd, serverEnd := mcp.NewInMemoryTransports()
	if _, err := m.Connect(t.Context(), serverEnd, nil); err != nil {
		t.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "0"}, nil).Connect(t.Context(), clientEnd, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return s, session, log
}

// act calls the tool and returns the text of its error, "" when it has none.
func act(t *testing.T, s *mcp.ClientSession) string {
	t.Helper()
	res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "act"})
	if err != nil {
		t.Fatalf("the call is a protocol error: %v", err)
	}
	if !res.IsError {
		return ""
	}
	return res.Content[0].(*mcp.TextContent).Text
}

func TestPanicIsOneCallsError(t *testing.T) {
	calls := 0
	_, session, log := actor(t, func(context.Context) error {
		if calls++; calls == 1 {
			panic("a secret of the server")
		}
		return nil
	})
	if text := act(t, session); !strings.HasPrefix(text, "internal error") || strings.Contains(text, "secret") {
		t.Errorf("the panicking call says %q", text)
	}
	for _, want := range []string{"a secret of the server", "middleware_internal_test.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, log)
		}
	}
	if text := act(t, session); text != "" {
		t.Errorf("the call after it says %q", text)
	}
}

// What is not made for callers may tell them anything, so it goes to the log.
func TestUnknownErrorIsNotShown(t *testing.T) {
	var fails error
	_, session, log := actor(t, func(context.Context) error { return fails })
	fails = errors.New("open /home/user/.secret: permission denied")
	if text := act(t, session); !strings.HasPrefix(text, "internal error") || strings.Contains(text, "secret") {
		t.Errorf("the call says %q", text)
	}
	if got := log.String(); !strings.Contains(got, "/home/user/.secret") || !strings.Contains(got, "tool=act") {
		t.Errorf("the log has %q", got)
	}
	fails = &agent.ArgError{Arg: "write", Reason: "pass another"}
	if text := act(t, session); text != "write: pass another" {
		t.Errorf("a known error says %q", text)
	}
	if strings.Contains(log.String(), "pass another") {
		t.Error("a known error is in the log")
	}
}

func TestStopRefusesCalls(t *testing.T) {
	s, session, _ := actor(t, func(context.Context) error { return nil })
	if text := act(t, session); text != "" {
		t.Fatalf("before the stop: %q", text)
	}
	s.Stop()
	if text := act(t, session); !strings.Contains(text, "stopping") || !strings.Contains(text, "start it again") {
		t.Errorf("after the stop: %q", text)
	}
	if _, err := session.ListTools(t.Context(), nil); err != nil {
		t.Errorf("what is no call is still answered: %v", err)
	}
}

func TestStopCutsCallShort(t *testing.T) {
	started := make(chan struct{})
	s, session, log := actor(t, func(ctx context.Context) error {
		close(started)
		<-ctx.Done()
		return ctx.Err()
	})
	go func() {
		<-started
		s.Stop()
	}()
	if text := act(t, session); !strings.Contains(text, "the server stopped during the call") {
		t.Errorf("the call under way says %q", text)
	}
	if log.String() != "" {
		t.Errorf("the log has %q", log)
	}
}

// A call that its client gives up ends, and the session goes on.
func TestClientCancelsCall(t *testing.T) {
	started, ended := make(chan struct{}, 1), make(chan error, 1)
	_, session, _ := actor(t, func(ctx context.Context) error {
		started <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started
		cancel()
	}()
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "act"}); !errors.Is(err, context.Canceled) {
		t.Errorf("the call returns %v", err)
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the handler ends with %v", err)
	}
	if _, err := session.ListTools(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
