package agent_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"pi-mcp/agent"
)

// lock keeps everybody from writing to the database until the end of the test, or
// until unlock is called.
func (w *world) lock() (unlock func()) {
	w.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(w.dir, "state", "db")+"?_txlock=immediate&_pragma=busy_timeout(60000)")
	must(w.t, err)
	tx, err := db.Begin()
	must(w.t, err)
	unlock = func() {
		_ = tx.Rollback() // may be done
		db.Close()
		eventually(w.t, func() bool { return !inStore("") }, func() string { return "the database is never left" })
	}
	w.t.Cleanup(unlock)
	return unlock
}

// inStore reports whether a goroutine is in a method of the store.
func inStore(method string) bool {
	buf := make([]byte, 4<<20)
	return strings.Contains(string(buf[:runtime.Stack(buf, true)]), "pi-mcp/store.(*DB)."+method)
}

// whileLocked calls something that comes to write, with a locked database, and stops
// the server then. It returns what the call returned.
func (w *world) whileLocked(method string, call func() error) error {
	w.t.Helper()
	unlock := w.lock()
	got := make(chan error, 1)
	go func() { got <- call() }()
	eventually(w.t, func() bool { return inStore(method + "(") }, func() string { return method + " is never called" })
	w.sup.Close()
	err := <-got
	unlock()
	return err
}

// A call that waits for a locked database gives up with the stop of the server, not
// when the database does.
func TestStopDuringLockedWrite(t *testing.T) {
	for _, tc := range []struct {
		method string
		call   func(w *world, stopped string) error
	}{
		{"Insert", func(w *world, _ string) error {
			_, err := w.sup.Run(context.Background(), w.who, agent.RunRequest{})
			return err
		}},
		{"MakeGroup", func(w *world, _ string) error {
			_, err := w.sup.Run(context.Background(), w.who, agent.RunRequest{AccessToken: strings.Repeat("t", 32)})
			return err
		}},
		{"Claim", func(w *world, id string) error {
			_, err := w.sup.Resurrect(context.Background(), w.who, id, nil)
			return err
		}},
		{"Tombstone", func(w *world, id string) error {
			_, err := w.sup.Remove(context.Background(), w.who, id, false)
			return err
		}},
	} {
		t.Run(tc.method, func(t *testing.T) {
			w := newWorld(t)
			a := w.run(agent.RunRequest{})
			w.rip(a.AgentID)
			err := w.whileLocked(tc.method, func() error { return tc.call(w, a.AgentID) })
			if err == nil || !strings.Contains(err.Error(), "the server stops") {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}

// The same for the call of a caged agent, whose end the end of its process waits for.
func TestStopDuringLockedCall(t *testing.T) {
	w := newWorld(t, func(c *agent.Config) { c.ChildMCP = true })
	calling, ended := make(chan struct{}), make(chan error, 1)
	w.sup.Serve(func(who agent.Caller) (http.Handler, func()) {
		done := make(chan struct{})
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			defer close(done)
			close(calling)
			_, err := w.sup.Run(r.Context(), who, agent.RunRequest{})
			ended <- err
		}), func() { <-done }
	})
	a := w.run(agent.RunRequest{})
	err := w.whileLocked("Insert", func() error {
		_, err := w.sup.Send(context.Background(), w.who, a.AgentID, act(do("spawn", knock(ownToken, "x", 1)), do("wait_file", "/tmp/x")), agent.FollowUp, false)
		<-calling
		return errors.Join(err, <-ended)
	})
	if err == nil || !strings.Contains(err.Error(), "the server stops") {
		t.Errorf("it ends with %v", err)
	}
}

// Whatever a call is caught in, the stop does not wait for it for ever.
func TestStopDuringEndlessCall(t *testing.T) {
	w := newWorld(t, func(c *agent.Config) { c.ChildMCP = true })
	calling, letGo := make(chan struct{}), make(chan struct{})
	w.sup.Serve(func(agent.Caller) (http.Handler, func()) {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			close(calling)
			<-letGo
		}), func() {}
	})
	door := w.door(w.run(host).AgentID)
	door.dial(t, door.request(""))
	<-calling
	w.sup.Close()
	w.noProcess()
	close(letGo)
	atRest(t)
}
