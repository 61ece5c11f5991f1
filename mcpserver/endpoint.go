package mcpserver

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-mcp/agent"
)

const (
	// sessionless is the first version of the protocol that has no sessions.
	sessionless = "2026-07-28"

	// maxSessions bounds the sessions that an agent holds open.
	maxSessions = 16

	// sessionIdle is how long a session may go without a request. pi opens another
	// one when its own has ended.
	sessionIdle = time.Hour
)

// An endpoint is the tools for one process of a caged agent, over HTTP. It has an
// *mcp.Server of its own, so no other agent's sessions are there to be guessed.
type endpoint struct {
	mcp      *mcp.Server
	old, new http.Handler // for versions before sessionless and from there on

	over     context.Context // ends with the process, and every request with it
	cancel   context.CancelFunc
	requests sync.WaitGroup // added to under mu, and not once ended

	mu      sync.Mutex // protects the fields below
	ended   bool
	opening int // requests that may open a session
}

// Endpoint serves the tools over HTTP on behalf of one process of a caged agent. end
// cuts its calls short, closes its sessions and returns when nothing is left of them;
// later requests are refused. Who may call is the business of what is in front.
func (s *Server) Endpoint(who agent.Caller) (h http.Handler, end func()) {
	e := &endpoint{}
	e.over, e.cancel = context.WithCancel(context.Background())
	calls, cancel := context.WithCancel(s.lifetime) // when the server stops, they are still answered
	context.AfterFunc(e.over, cancel)
	e.mcp = s.tools(calls, func(*mcp.CallToolRequest) agent.Caller { return who })
	serve := func(stateless bool) http.Handler {
		return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return e.mcp }, &mcp.StreamableHTTPOptions{
			Stateless: stateless, SessionTimeout: sessionIdle, PropagateRequestCancellation: true, Logger: s.sdkLog(),
		})
	}
	e.old, e.new = serve(false), serve(true)
	return e, e.end
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	old := r.Header.Get("Mcp-Protocol-Version") < sessionless
	opens := old && r.Method == http.MethodPost && r.Header.Get("Mcp-Session-Id") == ""
	if words := e.begin(opens); words != "" {
		http.Error(w, words, http.StatusServiceUnavailable)
		return
	}
	defer e.done(opens)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(e.over, cancel)()
	r = r.WithContext(ctx)
	if old {
		e.old.ServeHTTP(w, r)
		return
	}
	e.new.ServeHTTP(w, r)
}

// begin counts a request, or says why it is not answered.
func (e *endpoint) begin(opens bool) (words string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return "the agent has ended"
	}
	if opens {
		if e.open()+e.opening >= maxSessions {
			return fmt.Sprintf("this agent has %d MCP sessions open: end one with DELETE, or go on in one of them", maxSessions)
		}
		e.opening++
	}
	e.requests.Add(1)
	return ""
}

func (e *endpoint) done(opens bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if opens {
		e.opening--
	}
	e.requests.Done()
}

// open counts the sessions. One without an id is a single stateless request.
func (e *endpoint) open() (n int) {
	for s := range e.mcp.Sessions() {
		if s.ID() != "" {
			n++
		}
	}
	return n
}

// end may be called more than once.
func (e *endpoint) end() {
	e.mu.Lock()
	e.ended = true
	e.mu.Unlock()
	e.cancel()
	e.requests.Wait() // after that there is nobody who could open a session
	for s := range e.mcp.Sessions() {
		_ = s.Close() // waits for its calls, which know that they are over
	}
}
