package agent

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// handle answers one request, or passes it on.
func (e *endpoint) handle(w http.ResponseWriter, r *http.Request) {
	out := patient(w, e.patience)
	defer out.renew() // for what net/http still has of the answer
	w = out
	if status, words := e.refuse(r); status != 0 {
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, words, status)
		return
	}
	select {
	case e.requests <- struct{}{}:
		defer func() { <-e.requests }()
	default:
		busy(w)
		return
	}
	if r.Method != http.MethodGet { // a stream has no answer of its own
		if !e.admit(r.Context()) {
			busy(w)
			return
		}
		defer func() { <-e.calls }()
	}
	if r.Body != http.NoBody {
		r.Body = timely(w, http.MaxBytesReader(w, r.Body, endpointBody))
	}
	e.h.ServeHTTP(w, r)
}

// admit returns when a call has a slot, or false when none became free in time.
func (e *endpoint) admit(ctx context.Context) bool {
	late := time.NewTimer(e.queue)
	defer late.Stop()
	select {
	case e.calls <- struct{}{}:
		return true
	case <-late.C:
	case <-ctx.Done():
	}
	return false
}

func busy(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, "too many requests at a time: wait for the end of one", http.StatusServiceUnavailable)
}

// refuse returns why a request is not answered, and 0 if it is. A page in a browser
// that this machine's user opens can send requests here, under a name of its own for
// this address (DNS rebinding) or from its own origin: Host and Origin give both away.
func (e *endpoint) refuse(r *http.Request) (status int, words string) {
	switch {
	case r.Host != "127.0.0.1:"+e.port && r.Host != "localhost:"+e.port:
		return http.StatusForbidden, "Host is not this endpoint's address: use the url of mcp.json"
	case !sameOrigin(r):
		return http.StatusForbidden, "Origin is not this endpoint: it does not serve pages of others"
	case r.URL.Path != endpointPath:
		return http.StatusNotFound, "there is nothing but " + endpointPath
	case e.ctx.Err() != nil || !e.knows(r.Header.Get("Authorization")):
		return http.StatusUnauthorized, "send the bearer token of this agent's mcp.json; each start of the agent makes a new one"
	}
	return 0, ""
}

// sameOrigin reports whether a request comes from no page, or from one of the
// endpoint's own, whose Host has been checked.
func sameOrigin(r *http.Request) bool {
	all := r.Header.Values("Origin")
	return len(all) == 0 || len(all) == 1 && all[0] == "http://"+r.Host
}

// knows reports whether an Authorization header carries the token. How long that
// takes tells nothing about it.
func (e *endpoint) knows(header string) bool {
	scheme, token, _ := strings.Cut(header, " ")
	sum := sha256.Sum256([]byte(token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], e.sum[:]) == 1
}

// A timelyBody is the body of a request while it may arrive. Its end lifts the
// deadline: from then on the connection is only watched for the client's going away.
type timelyBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func timely(w http.ResponseWriter, body io.ReadCloser) io.ReadCloser {
	b := &timelyBody{body, http.NewResponseController(w)}
	_ = b.control.SetReadDeadline(time.Now().Add(endpointBodyTime)) // every TCP connection has deadlines
	return b
}

func (b *timelyBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// A doorway accepts connections while there are slots for them.
type doorway struct {
	net.Listener
	e *endpoint
}

func (d *doorway) Accept() (net.Conn, error) {
	select {
	case d.e.conns <- struct{}{}:
	case <-d.e.ctx.Done():
		return nil, net.ErrClosed
	}
	c, err := d.Listener.Accept()
	if err != nil {
		<-d.e.conns
	}
	return c, err
}

// count follows the life of a connection. net/http calls it for a new one from the
// accepting goroutine, so none is added after that one has ended.
func (e *endpoint) count(c net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		e.busy.Add(1)
		if e.ctx.Err() != nil {
			c.Close() // accepted too late for the server's Close to know of it
		}
	case http.StateClosed, http.StateHijacked:
		<-e.conns
		e.busy.Done()
	}
}
