// Package scripted is a model provider without a model: an HTTP server on the
// loopback interface that speaks OpenAI's streaming chat completions and
// answers what a function says. Tests and the demo put it where a paid
// provider would be; the agent on the other side is the real pi.
package scripted

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Provider and Model are the names under which pi knows the server.
const (
	Provider = "scripted"
	Model    = "scripted-model"
)

// maxBody bounds a request. A conversation of a few hundred thousand tokens is
// a few MiB; with images it can be ten times as much.
const maxBody = 64 << 20

// Config says what the server answers.
type Config struct {
	// Script is required. It is called once for each request, by several
	// goroutines at a time when several agents ask, and has to return: a reply
	// is held back with [Reply.Delay], not by blocking here.
	Script func(Request) Reply
}

// A Server is made by [New] and answers between Serve and Close.
type Server struct {
	config Config
	ctx    context.Context // ends at Close; the base of every request's context
	cancel context.CancelFunc
	http   *http.Server
	addr   net.Addr       // set by Serve
	busy   sync.WaitGroup // the accepting goroutine and every open connection
	seen   history
}

// New returns a server that does not listen yet.
func New(config Config) *Server {
	s := &Server{config: config}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.complete)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, "no such endpoint: "+r.Method+" "+r.URL.Path)
	})
	s.http = &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return s.ctx },
		ConnState:         s.count,
	}
	return s
}

// Serve listens on a free port of 127.0.0.1 and returns; requests are answered
// in the background until Close. It can be called once.
func (s *Server) Serve() error {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("cannot listen for model requests: %w", err)
	}
	s.addr = l.Addr()
	s.busy.Go(func() { s.http.Serve(l) })
	return nil
}

// Close stops listening, cuts the answers that are under way, held ones too,
// and returns when no goroutine of the server is left.
func (s *Server) Close() error {
	s.cancel()
	err := s.http.Close()
	s.busy.Wait()
	return err
}

// URL is the base of the API, as a models.json wants it. Valid after Serve.
func (s *Server) URL() string { return "http://" + s.addr.String() + "/v1" }

// Requests returns what was asked, oldest first. Only the latest are kept: 256
// of them, or fewer when their bodies together pass 64 MiB.
func (s *Server) Requests() []Request { return s.seen.all() }

// count lets Close wait for connections. net/http reports a connection as new
// from the accepting goroutine, so none is added after that one has ended.
func (s *Server) count(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.busy.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.busy.Done()
	}
}

// complete is the one endpoint: read, record, ask the script, answer.
func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	req, err := readRequest(w, r)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is over %d bytes", maxBody))
		return
	case err != nil:
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	number := s.seen.add(req)
	reply := s.config.Script(req)
	if !reply.wait(r.Context()) {
		panic(http.ErrAbortHandler) // cut the connection: nobody waits, or Close was called
	}
	if reply.Status != 0 {
		refuse(w, reply.Status, reply.Text)
		return
	}
	newStream(w, number, req).send(reply)
}
