package agent

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"pi-mcp/agent/pi"
	"pi-mcp/cage/egress"
)

// endpointAddress is where every cage with a network of its own finds its endpoint.
const endpointAddress = "127.0.0.1:17017"

// endpointPath is the only path that an endpoint answers.
const endpointPath = "/mcp"

// endpointCall is how long pi waits for the answer to one call: longer than the
// longest call, a wait of an hour.
const endpointCall = 65 * time.Minute

// What one agent may take of its endpoint. All of it is the agent's own: another
// agent has another listener.
const (
	endpointConns    = 128 // beyond them nothing is accepted until one ends
	endpointRequests = 64  // at a time; streams that are open count
	endpointCalls    = 16  // of them, that may have an answer in memory; the others wait
	endpointHeader   = 32 << 10
	endpointBody     = 4 << 20

	endpointHeaderTime = 10 * time.Second // for the head of a request to arrive
	endpointBodyTime   = 30 * time.Second // for its body
	endpointIdle       = 2 * time.Minute  // for a connection without a request
	endpointPatience   = 30 * time.Second // for the next piece of an answer to be taken
	endpointQueue      = 30 * time.Second // for a call to get its slot
)

// An Endpoint makes what answers the calls of one process of a caged agent. It is
// called once for each start. When the process has ended, or is being stopped, end
// is called: it cuts the calls under way short and returns when none is left. What
// the agent asks after that does not reach the handler.
type Endpoint func(Caller) (h http.Handler, end func())

// Serve gives every process that is started from now on an endpoint, if the
// configuration has ChildMCP. It is called before the first run, or not at all: then
// agents get none.
func (s *Supervisor) Serve(e Endpoint) { s.serve = e }

// An endpoint is where one process of an agent reaches the server. Who calls is
// known by the listener, which nobody outside the agent's own network can connect
// to; the token is the second factor, and the only one for an agent with the host's
// network. A nil endpoint is none.
type endpoint struct {
	sum [sha256.Size]byte // of the token, which is kept nowhere but in the agent's mcp.json
	own net.Listener      // of an agent with the host's network: mcp.json names its port
	log *slog.Logger

	ctx    context.Context // ends when the token is revoked
	cancel context.CancelFunc
	once   sync.Once
	done   chan struct{} // closed when nothing of it is left
	late   chan struct{} // the supervisor's: from then on nobody waits for that

	conns    chan struct{} // a slot for each connection
	requests chan struct{} // a slot for each request
	calls    chan struct{} // a slot for each that is not a stream's
	patience time.Duration // with an answer that is not read
	queue    time.Duration // for which a call waits for its slot

	// ---- set by open ----

	port   string
	h      http.Handler
	end    func()
	server *http.Server
	busy   sync.WaitGroup // the accepting goroutine and every connection
}

// mint makes the endpoint of a start and what pi is told of it: nil and nil when
// there is to be none. What it opens is l's, to be closed with l.endpoint.
func (a *liveAgent) mint(l *launch) (*pi.MCP, error) {
	if !a.sup.cfg.ChildMCP || a.sup.serve == nil {
		return nil, nil
	}
	raw := make([]byte, 32)
	rand.Read(raw)
	token := base64.RawURLEncoding.EncodeToString(raw)
	e := &endpoint{
		sum: sha256.Sum256([]byte(token)), log: a.sup.cfg.Log.With("agent", a.id), done: make(chan struct{}), late: a.sup.late,
		conns: make(chan struct{}, endpointConns), requests: make(chan struct{}, endpointRequests),
		calls: make(chan struct{}, endpointCalls), patience: endpointPatience, queue: endpointQueue,
	}
	address := endpointAddress
	if policyOf(a.row.Network) == egress.Host {
		var err error
		if e.own, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("cannot listen for its calls: %w", err)
		}
		address = e.own.Addr().String()
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	l.endpoint = e
	return &pi.MCP{URL: "http://" + address + endpointPath, Token: token, Timeout: endpointCall}, nil
}

// open begins to serve, on the cage's listener unless it has one of its own. It is
// called once at most, and not after revoke.
func (e *endpoint) open(caged []net.Listener, who Caller, serve Endpoint) {
	if e == nil {
		return
	}
	l := e.own
	if l == nil {
		l = caged[1] // the first is the proxy's, see spec
	}
	e.port = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	e.h, e.end = serve(who)
	e.server = &http.Server{
		Handler:                      http.HandlerFunc(e.handle),
		ReadHeaderTimeout:            endpointHeaderTime,
		IdleTimeout:                  endpointIdle,
		MaxHeaderBytes:               endpointHeader,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(e.log.Handler(), slog.LevelDebug),
		BaseContext:                  func(net.Listener) context.Context { return e.ctx },
		ConnState:                    e.count,
	}
	e.busy.Go(func() {
		err := e.server.Serve(&doorway{l, e})
		if e.ctx.Err() == nil && !errors.Is(err, net.ErrClosed) { // the cage's listener closes with the cage
			e.log.Error("cannot serve an agent's endpoint any more", "err", err)
		}
	})
}

// revoke makes the token worthless, at once, and begins to end what is under way. It
// does not wait, so loop may call it.
func (e *endpoint) revoke() {
	if e == nil {
		return
	}
	e.once.Do(func() {
		e.cancel()
		go e.wind()
	})
}

// close revokes the token and returns when no call, no connection and no goroutine of
// the endpoint is left. At the end of a stop it does not wait for that: a call may be
// in the database, which somebody else keeps locked.
func (e *endpoint) close() {
	if e == nil {
		return
	}
	e.revoke()
	select {
	case <-e.done:
	case <-e.late:
	}
}

func (e *endpoint) wind() {
	defer close(e.done)
	if e.own != nil {
		e.own.Close()
	}
	if e.server == nil {
		return // never opened
	}
	e.server.Close()
	e.end()
	e.busy.Wait()
}
