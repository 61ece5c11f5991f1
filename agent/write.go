package agent

import (
	"context"
	"errors"
	"time"
)

// writing is the context of a change that nobody's cancellation may undo half way.
func (s *Supervisor) writing() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 10*time.Second)
}

// errLate is why something was not written: the server is at the end of its stop.
var errLate = errors.New("the database is locked and the server stops")

// store makes a change like writing, and at the end of a stop does not wait for
// it: a call that waits for a locked database cannot be interrupted.
func (s *Supervisor) store(change func(context.Context) error) error {
	done := make(chan error, 1)
	go func() {
		ctx, cancel := s.writing()
		defer cancel()
		done <- change(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-s.late:
		return errLate
	}
}
