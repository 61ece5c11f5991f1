package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-mcp/agent"
	"pi-mcp/store"
)

// A client of either era is served at the endpoint, on behalf of the agent's group.
func TestEndpointBothEras(t *testing.T) {
	w := newWorld(t)
	foreign := newID(t)
	w.insert(foreign, func(a *store.Agent) { a.Group = "other" })
	a := w.caged()
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-11-25", "2026-07-28", ""} {
		s := a.session(version)
		if got := s.InitializeResult().ProtocolVersion; version != "" && got != version {
			t.Errorf("the session is of %s, not %s", got, version)
		}
		if all := len(tools(t, s)); all != len(tools(t, w.connect(""))) {
			t.Errorf("%s: %d tools", version, all)
		}
		text, err := json.Marshal(do(t, s, "list", nil))
		must(t, err)
		if !strings.Contains(string(text), a.id) || strings.Contains(string(text), foreign) {
			t.Errorf("%s: the agent's list is %s", version, text)
		}
		if res := call(t, s, "get_info", args{"agent_id": foreign}); !res.IsError {
			t.Errorf("%s: it sees an agent of another group", version)
		}
		must(t, s.Close())
	}
}

// F46: the id of a session that is no more, or another agent's, is a 404, so that the
// client starts over. Each control is the same request where the session is known.
func TestF46OldSession(t *testing.T) {
	a := newWorld(t).caged()
	b := a.caged()
	first, other := a.open(), b.open()
	if first.status != 200 || first.session == "" || other.session == "" {
		t.Fatalf("initialize: %+v", first)
	}
	if got := a.post(first.session, listTools); got.status != 200 {
		t.Errorf("the control: %+v", got)
	}
	if got := b.post(other.session, listTools); got.status != 200 {
		t.Errorf("the control: %+v", got)
	}
	if got := a.post(other.session, listTools); got.status != 404 {
		t.Errorf("another agent's session: %+v", got)
	}
	if got := a.ask(t.Context(), "GET", other.session, ""); got.status != 404 {
		t.Errorf("its stream: %+v", got)
	}
	if got := a.ask(t.Context(), "DELETE", other.session, ""); got.status != 404 {
		t.Errorf("its end: %+v", got)
	}
	_, err := a.sup.Rip(t.Context(), a.who, a.id, false)
	must(t, err)
	_, err = a.sup.Resurrect(t.Context(), a.who, a.id, nil)
	must(t, err)
	again := a.endpointOf(a.id)
	if got := again.post(first.session, listTools); got.status != 404 {
		t.Errorf("a session of the process before: %+v", got)
	}
	if got := again.open(); got.status != 200 {
		t.Errorf("the new session: %+v", got)
	}
}

// Sessions are bounded; the words say what to do, and doing it helps.
func TestEndpointSessions(t *testing.T) {
	a := newWorld(t).caged()
	var all []reply
	for range 16 {
		r := a.open()
		if r.status != 200 {
			t.Fatalf("session %d: %+v", len(all), r)
		}
		all = append(all, r)
	}
	if got := a.open(); got.status != 503 || !strings.Contains(got.content, "16 MCP sessions") || !strings.Contains(got.content, "DELETE") {
		t.Errorf("the 17th: %+v", got)
	}
	if got := a.post(all[0].session, listTools); got.status != 200 {
		t.Errorf("one of them: %+v", got)
	}
	if out := do(t, a.session("2026-07-28"), "list", nil); out["count"] != 1.0 {
		t.Errorf("without a session: %v", out)
	}
	if got := a.ask(t.Context(), "DELETE", all[0].session, ""); got.status != 204 {
		t.Errorf("the end of one: %+v", got)
	}
	if got := a.open(); got.status != 200 {
		t.Errorf("another one: %+v", got)
	}
}

// mute makes a model whose runs go on for ever.
func (w *world) mute() {
	w.script("mute", map[string]any{"on": map[string]any{"get_state": []any{map[string]any{"hang": true}}}})
}

// starting waits until so many agents are there.
func (w *world) rows(n int) {
	w.t.Helper()
	w.eventually(fmt.Sprint(n, " agents"), func() bool {
		rows, _, err := w.db.List(context.Background(), store.Query{Group: w.who.Group})
		must(w.t, err)
		return len(rows) == n
	})
}

// What an agent has asked for ends with it, in both eras, and leaves nothing.
func TestEndpointCallEndsWithAgent(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			w := newWorld(t)
			w.mute()
			a := w.caged()
			s := a.session(version)
			if version < "2026" && len(served()) == 0 {
				t.Error("the control: nothing is seen of the session")
			}
			ended := make(chan error, 1)
			go func() {
				_, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: "run", Arguments: args{"model": "mute"}})
				ended <- err
			}()
			w.rows(2)
			_, err := w.sup.Rip(t.Context(), w.who, a.id, false)
			must(t, err)
			if rows, _, err := w.db.List(t.Context(), store.Query{Group: w.who.Group}); len(rows) != 1 || err != nil {
				t.Errorf("after the rip there are %d agents (%v)", len(rows), err)
			}
			if err := <-ended; err == nil {
				t.Error("the call is answered")
			}
			s.Close()
			atRest(t, w)
		})
	}
}

// A request whose client goes away is cancelled where the protocol has no other way to
// say so.
func TestEndpointClientGone(t *testing.T) {
	w := newWorld(t)
	w.mute()
	a := w.caged()
	ctx, cancel := context.WithCancel(t.Context())
	s := a.session("2026-07-28")
	ended := make(chan error, 1)
	go func() {
		_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "run", Arguments: args{"model": "mute"}})
		ended <- err
	}()
	w.rows(2)
	cancel()
	if err := <-ended; err == nil {
		t.Error("the call is answered")
	}
	w.rows(1)
	if out := do(t, s, "list", nil); out["count"] != 1.0 {
		t.Errorf("the session after it: %v", out)
	}
}

// The stop of the server ends the calls of agents too.
func TestEndpointServerStops(t *testing.T) {
	w := newWorld(t)
	w.mute()
	s := w.caged().session("2025-11-25")
	text := make(chan string, 1)
	go func() {
		res, err := s.CallTool(context.Background(), &mcp.CallToolParams{Name: "run", Arguments: args{"model": "mute"}})
		if err != nil {
			text <- err.Error()
			return
		}
		text <- words(res)
	}()
	w.rows(2)
	w.server.Stop()
	if got := <-text; !strings.Contains(got, "the server stopped during the call") {
		t.Errorf("the run says %q", got)
	}
	w.rows(1)
}

// After its end an endpoint answers nothing and holds nothing.
func TestEndpointEnd(t *testing.T) {
	w := newWorld(t)
	h, end := w.server.Endpoint(agent.Caller{Group: w.who.Group, Agent: newID(t)})
	server := httptest.NewServer(h)
	defer server.Close()
	a := &caged{world: w, url: server.URL}
	first := a.open()
	if got := a.post(first.session, listTools); got.status != 200 {
		t.Errorf("the control: %+v", got)
	}
	stream := make(chan reply, 1)
	go func() { stream <- a.ask(context.Background(), "GET", first.session, "") }()
	var wg sync.WaitGroup
	for range 8 { // opened while the end comes
		wg.Go(func() { a.open() })
	}
	end()
	end()
	if got := <-stream; got.status != 200 && got.status != 404 && got.status != 503 {
		t.Errorf("the stream: %+v", got)
	}
	wg.Wait()
	for name, got := range map[string]reply{"a request": a.post(first.session, listTools), "a new session": a.open()} {
		if got.status != 503 || !strings.Contains(got.content, "ended") {
			t.Errorf("%s after the end: %+v", name, got)
		}
	}
	server.Close()
	atRest(t, w)
}

// Many sessions and calls at once each get their own answer.
func TestEndpointParallel(t *testing.T) {
	a := newWorld(t).caged()
	sessions := []*mcp.ClientSession{a.session("2025-11-25"), a.session("2025-11-25"), a.session("2026-07-28"), a.session("2026-07-28")}
	var wg sync.WaitGroup
	for i := range 48 {
		wg.Go(func() {
			s := sessions[i%len(sessions)]
			for range 10 {
				res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "get_info", Arguments: args{"agent_id": a.id}})
				if err != nil || res.IsError || !strings.Contains(words(res), a.id) {
					t.Errorf("call %d: %v %v", i, res, err)
				}
			}
		})
	}
	wg.Wait()
}
