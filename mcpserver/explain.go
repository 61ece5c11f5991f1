package mcpserver

import (
	"context"
	"errors"

	"pi-mcp/agent"
)

// explain is the one place where an error becomes words for a client. What it
// does not know is not shown, since nobody has checked what it tells: it goes to
// the log.
func (s *Server) explain(tool string, err error) error {
	switch {
	case errors.Is(err, agent.ErrNotFound):
		return errors.New("agent_id: no such agent; list shows the ones there are")
	case errors.Is(err, agent.ErrStopping):
		return errors.New("the server is stopping: start it again and repeat the call")
	case s.lifetime.Err() != nil && errors.Is(err, context.Canceled):
		return errors.New("the server stopped during the call: start it again, then see list for what became of it")
	case errors.Is(err, context.Canceled):
		return errors.New("the call was cancelled")
	case errors.Is(err, context.DeadlineExceeded):
		return errors.New("the call took too long and was given up")
	}
	if known(err) {
		return err
	}
	s.cfg.Log.Error("unexpected error", "tool", tool, "err", err)
	return errInternal
}

// known reports whether an error was made for callers.
func known(err error) bool {
	return as[*agent.ArgError](err) || as[*agent.StateError](err) || as[*agent.ForeignError](err) ||
		as[*agent.LimitError](err) || as[*agent.StartError](err) || as[*agent.PiError](err) || as[*agent.MoveError](err)
}

func as[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
