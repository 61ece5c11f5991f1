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
	_, err := storing(s, func(ctx context.Context) (struct{}, error) { return struct{}{}, change(ctx) })
	return err
}

// storeOf is store for a change of one agent.
func (s *Supervisor) storeOf(id string, change func(context.Context, string) error) error {
	return s.store(func(ctx context.Context) error { return change(ctx, id) })
}

// storing is store for a change that returns something.
func storing[T any](s *Supervisor, change func(context.Context) (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		ctx, cancel := s.writing()
		defer cancel()
		value, err := change(ctx)
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-s.late:
		var none T
		return none, errLate
	}
}
