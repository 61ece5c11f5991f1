package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"
)

// loudRefusals are logged at info level, later ones at debug.
const loudRefusals = 100

// errForm answers what is no request to a proxy.
var errForm = errors.New("this is a proxy: send CONNECT host:port, or an absolute http:// URL for plain HTTP")

// handle answers one request. Nothing is remembered from the one before on the same
// connection.
func (p *Proxy) handle(w http.ResponseWriter, r *http.Request) {
	if !p.enter() {
		panic(http.ErrAbortHandler)
	}
	defer p.handlers.Done()
	client := r.Context().Value(clientKey{}).(*clientConn)
	if client.over {
		w.Header().Set("Connection", "close")
		http.Error(w, fmt.Sprintf("this agent has %d connections open, which is its limit; close some", p.maxConns), http.StatusServiceUnavailable)
		return
	}
	t, up, err := p.open(r)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	defer up.Close()
	f := &flow{p: p, client: client, up: up}
	if r.Method == http.MethodConnect {
		f.tunnel(w)
	} else {
		f.forward(w, r, t)
	}
	p.log.Debug("egress", "to", t.String(), "out", f.out.Load(), "in", f.in.Load())
}

// enter counts a handler that Close waits for, unless it has begun to.
func (p *Proxy) enter() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.handlers.Add(1)
	}
	return !p.closed
}

// open connects to where the request wants to go.
func (p *Proxy) open(r *http.Request) (target, net.Conn, error) {
	t, err := requested(r)
	if err != nil {
		return target{}, nil, err
	}
	conn, err := p.connect(r.Context(), t)
	return t, conn, err
}

// requested reads the target from the request line alone: what the Host header says
// does not count, and is not passed on.
func requested(r *http.Request) (target, error) {
	if r.Method == http.MethodConnect {
		return named(r.RequestURI, 0)
	}
	u := r.URL
	if u.Scheme != "http" || u.Opaque != "" {
		return target{}, errForm
	}
	if u.User != nil {
		return target{}, &refusal{quoted(u.Host), "write the URL without a user name; to log in, send an Authorization header"}
	}
	return named(u.Host, portHTTP)
}

func named(text string, port uint16) (target, error) {
	t, err := parseTarget(text, port)
	if err != nil {
		return target{}, &refusal{quoted(text), err.Error()}
	}
	return t, nil
}

// fail answers a request that leads nowhere.
func (p *Proxy) fail(w http.ResponseWriter, r *http.Request, err error) {
	refused, isRefusal := errors.AsType[*refusal](err)
	status := http.StatusBadGateway
	switch {
	case isRefusal:
		status = http.StatusForbidden
		p.report(r, refused)
	case err == errForm:
		status = http.StatusBadRequest
	case errors.Is(err, context.DeadlineExceeded):
		status = http.StatusGatewayTimeout
	}
	answer(w, r, status, err.Error())
}

func (p *Proxy) report(r *http.Request, refused *refusal) {
	level := slog.LevelInfo
	if p.refused.Add(1) > loudRefusals {
		level = slog.LevelDebug
	}
	p.log.Log(r.Context(), level, "egress refused", "to", refused.to, "why", refused.why)
}

// answer ends the connection with a reason. That is in the status line as well, because
// it is all of a failed CONNECT that most clients show, and of other failures that some
// do (npm, Python's urllib). It is ASCII and one line: every part that the agent wrote
// is either quoted or has been read as a host name.
func answer(w http.ResponseWriter, r *http.Request, status int, reason string) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	short, _, _ := strings.Cut(reason, ": ")
	conn.SetDeadline(time.Now().Add(time.Second))
	fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n",
		status, short, len(reason)+1)
	if r.Method != http.MethodHead {
		fmt.Fprintln(conn, reason)
	}
	// A close with something unread would take the answer back.
	closeWrite(conn)
	io.Copy(io.Discard, io.LimitReader(conn, 1<<20))
}
