package mcpserver

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"

	"pi-mcp/agent"
)

// How the end of a stdio server is timed. Clients give a server about two
// seconds a step before they kill it.
const (
	lastCalls = 250 * time.Millisecond // for calls that were read before the end of stdin
	lastDrain = 2500 * time.Millisecond
)

// Stdio serves one client on standard input and output. It returns when the
// input has ended, the output cannot be written or ctx has ended; by then it has
// called stop, which has to end the agents, and what was being answered is
// answered.
func (s *Server) Stdio(ctx context.Context, who agent.Caller, stop func()) error {
	in, err := openStdin()
	if err != nil {
		return err
	}
	out, err := openStdout()
	if err != nil {
		return errors.Join(err, in.Close())
	}
	return s.serve(ctx, who, in, out, stop)
}

func (s *Server) serve(ctx context.Context, who agent.Caller, in io.Reader, out io.Writer, stop func()) error {
	end := sync.OnceFunc(func() { // whoever comes second waits for the first
		s.Stop()
		stop()
	})
	front := newFront(in, out, lastDrain)
	front.onEOF = func() { time.AfterFunc(lastCalls, end) }
	front.onBroken = func(error) { go end() }
	defer context.AfterFunc(ctx, func() {
		end()
		front.Close()
	})()
	err := s.MCP(who).Run(context.WithoutCancel(ctx), front.Transport())
	end()
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || ctx.Err() != nil {
		return nil // the client is gone, or we were told to go
	}
	return err
}
