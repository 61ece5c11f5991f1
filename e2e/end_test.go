package e2e

import (
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite" // to lock a database from outside
)

// crew starts three agents that a server has to stop: an idle one, a busy one, and
// one that neither answers nor ends by itself.
func crew(w *world, c *wire) (ids []string) {
	w.script("deaf", deaf())
	for _, model := range []string{"plain", "plain", "deaf"} {
		ids = append(ids, c.do("run", obj{"model": model}).ID)
	}
	c.do("send_message", obj{"agent_id": ids[1], "message": never()})
	c.tool("send_message", obj{"agent_id": ids[2], "message": "can you hear me?"}) // has no answer
	return ids
}

// stopped fails the test unless all of a crew were stopped with their server.
func stopped(t *testing.T, w *world, ids []string) {
	t.Helper()
	w.quiet()
	c := w.client()
	for n, id := range ids {
		i := c.info(id)
		if i.State != "exited" || i.Lifecycle.SelfExits != 0 || str(i.LastError) != "stopped with the server" {
			t.Errorf("agent %d: %+v", n, i)
		}
	}
}

// The end of stdin is the end of the server: what was asked is answered, all
// agents are stopped, and the exit code is 0.
func TestF43StdinCloses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.wire(nil)
	c.hello()
	ids := crew(w, c)
	call := c.tool("get_info", obj{"agent_id": ids[0]})
	must(t, c.in.Close())
	if text, failed := c.result(call); failed || !strings.Contains(text, ids[0]) {
		t.Errorf("the call under way: %s", text)
	}
	if code := c.exit(); code != 0 {
		t.Errorf("exit code %d\n%s", code, c.stderr.String())
	}
	stopped(t, w, ids)
}

// A call that would last is cut short at the end of stdin, and still answered.
func TestF43StdinClosesDuringRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.script("slow", obj{"start": []obj{do("wait_file", "/tmp/never")}})
	c := w.wire(nil)
	c.hello()
	call := c.tool("run", obj{"model": "slow"})
	eventually(t, func() bool { return len(w.caged()) > 0 }, func() string { return "no cage" })
	must(t, c.in.Close())
	if text, failed := c.result(call); !failed || !strings.Contains(text, "stop") {
		t.Errorf("the run under way: %s", text)
	}
	if code := c.exit(); code != 0 {
		t.Errorf("exit code %d\n%s", code, c.stderr.String())
	}
	w.quiet()
	w.client().none()
	w.untouched()
}

// Nobody reads any more: the server ends, although stdin is open.
func TestF43StdoutCloses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.wire(nil)
	c.hello()
	ids := crew(w, c)
	must(t, c.out.Close())
	if code := c.exit(); code != 0 {
		t.Errorf("exit code %d\n%s", code, c.stderr.String())
	}
	stopped(t, w, ids)
}

// The client is killed, with answers unread: the server ends, and does not spin.
func TestF43ClientKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	self, err := os.Executable()
	must(t, err)
	cmd := w.command(nil)
	cmd.Path, cmd.Args = self, []string{self, "relay", programs.piMCP}
	c := w.wireTo(cmd)
	c.hello()
	ids := crew(w, c)
	var server int
	eventually(t, func() bool {
		_, err := fmt.Sscanf(c.stderr.String(), "server pid %d\n", &server)
		return err == nil
	}, func() string { return "the relay does not say the server's pid" })
	must(t, c.cmd.Process.Kill())
	if used := gone(t, server); used > 500*time.Millisecond {
		t.Errorf("the server used %v of processor time to stop three agents", used)
	}
	stopped(t, w, ids)
}

// SIGTERM stops everything; a second one, and others, change nothing.
func TestSignals(t *testing.T) {
	t.Parallel()
	for _, signals := range [][]syscall.Signal{
		{syscall.SIGTERM},
		{syscall.SIGINT},
		{syscall.SIGHUP},
		{syscall.SIGTERM, syscall.SIGTERM, syscall.SIGINT, syscall.SIGTERM},
	} {
		t.Run(fmt.Sprint(signals), func(t *testing.T) {
			w := newWorld(t)
			c := w.wire(nil)
			c.hello()
			ids := crew(w, c)
			for _, s := range signals {
				if c.cmd.Process.Signal(s) != nil && s != signals[0] {
					break // it has ended already
				}
			}
			if code := c.exit(); code != 0 {
				t.Errorf("exit code %d\n%s", code, c.stderr.String())
			}
			stopped(t, w, ids)
		})
	}
}

// The signal that follows the end of stdin belongs to the same stop.
func TestSignalAfterStdin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.wire(nil)
	c.hello()
	ids := crew(w, c)
	must(t, c.in.Close())
	eventually(t, func() bool { // the first agent has gone: it is stopping
		return !slices.ContainsFunc(w.caged(), func(s string) bool { return strings.Contains(s, "--model plain") })
	}, func() string { return "nothing stops" })
	c.cmd.Process.Signal(syscall.SIGTERM)
	if code := c.exit(); code != 0 {
		t.Errorf("exit code %d\n%s", code, c.stderr.String())
	}
	stopped(t, w, ids)
}

// A database that another process keeps locked holds the stop up for no agent: all
// processes end, and the next server writes down what this one could not.
func TestStopWithLockedDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.wire(nil)
	c.hello()
	ids := []string{c.do("run", nil).ID, c.do("run", nil).ID}
	unlock := lockDatabase(t, w.path("state", "db"))
	must(t, c.in.Close())
	c.exit()
	w.quiet()
	unlock()
	next := w.client()
	for _, id := range ids {
		if i := next.info(id); i.State != "exited" || i.Lifecycle.SelfExits != 0 {
			t.Errorf("%+v", i)
		}
	}
}

// lockDatabase takes the write lock of a database as another process would.
func lockDatabase(t *testing.T, path string) (unlock func()) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	must(t, err)
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	return func() {
		t.Helper()
		must(t, tx.Rollback())
		must(t, db.Close())
	}
}
