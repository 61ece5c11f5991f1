package agent

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"pi-mcp/artifacts"
	"pi-mcp/store"
)

var update = flag.Bool("update", false, "rewrite generated files")

var (
	states = []State{Starting, Idle, Active, Stopping, Ripped, Exited}
	events = []Event{Ready, Prompt, Refused, Handled, RunStart, Settle, Stop, Exit, StartFailed, Resurrect, Lost}
	causes = []Cause{ByRip, ByLimit, ByShutdown, ByRemove}
)

// TestLifecyclePage drives a real owner goroutine, over a real store, through
// every pair of state and event, with each fact that decides between two states,
// and compares what becomes of the stored row with doc/lifecycle.md.
func TestLifecyclePage(t *testing.T) {
	sup := bareSupervisor(t)
	var b strings.Builder
	b.WriteString(pageHead)
	b.WriteString("|")
	for _, e := range events {
		fmt.Fprintf(&b, " | %s", e)
	}
	b.WriteString(" |\n|---" + strings.Repeat("|---", len(events)) + "|\n")
	for _, s := range states {
		fmt.Fprintf(&b, "| **%s**", s)
		for _, e := range events {
			fmt.Fprintf(&b, " | %s", cellText(t, sup, s, e))
		}
		b.WriteString(" |\n")
	}
	golden(t, "../doc/lifecycle.md", b.String())
}

const pageHead = `# The life of an agent

Made by ` + "`go test ./agent -run LifecyclePage -update`" + ` from what the owner goroutine of an agent does; the test fails when
this page and the program differ. Rows are states, columns are events, a dot is a refused event.

"busy" means that a run is on or a prompt is outstanding. Clients see starting and stopping as active. "gone" means that the
row and the directory are removed. A first start that fails leaves nothing; a resurrection that fails leaves the agent as it
was ("before").

`

// cellText tries one pair with all facts that may matter.
func cellText(t *testing.T, sup *Supervisor, s State, e Event) string {
	switch {
	case s == Stopping && e == Exit:
		var parts []string
		for _, c := range causes {
			parts = append(parts, fmt.Sprintf("%s: %s", c, drive(t, sup, s, e, func(a *liveAgent) { a.cause = c })))
		}
		return strings.Join(parts, ", ")
	case s == Starting && (e == StartFailed || e == Lost):
		first := drive(t, sup, s, e, func(*liveAgent) {})
		again := drive(t, sup, s, e, func(a *liveAgent) { a.row.Resume = string(Ripped) })
		if again != string(Ripped) {
			t.Errorf("%s while %s with a state before: %s", e, s, again)
		}
		return "first: " + first + ", else before"
	}
	quiet := drive(t, sup, s, e, func(*liveAgent) {})
	busy := drive(t, sup, s, e, func(a *liveAgent) { a.turn.running = true })
	if quiet != busy {
		return quiet + ", busy: " + busy
	}
	return quiet
}

// drive stores an agent in state s, hands e to its owner goroutine, and returns
// the state of the row afterwards, a dot for a refusal.
func drive(t *testing.T, sup *Supervisor, s State, e Event, facts func(*liveAgent)) string {
	t.Helper()
	id := uuid.Must(uuid.NewV7()).String()
	row := store.Agent{
		ID: id, Group: "g", Name: "n", State: string(s), Living: s.Living(), Owner: sup.cfg.Store.Owner(),
		Created: time.Now(), Updated: time.Now(), LastActivity: time.Now(),
	}
	if err := sup.cfg.Store.Insert(t.Context(), row, 0); err != nil {
		t.Fatal(err)
	}
	a := newLive(sup, row)
	go a.loop()
	refused := make(chan bool, 1)
	a.tell(func() {
		facts(a)
		_, err := a.state.On(e, Facts{Busy: a.turn.busy(), Cause: a.cause, Resume: State(a.row.Resume)})
		refused <- err != nil
		a.move(e)
		a.over = true
	})
	<-a.gone
	stored, err := sup.cfg.Store.Any(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if stored.State != string(a.state) || stored.Living != a.state.Living() {
		t.Errorf("%s while %s: the loop says %s, the row %s (living %v)", e, s, a.state, stored.State, stored.Living)
	}
	if stored.Removing != (a.state == Gone) {
		t.Errorf("%s while %s: tombstone %v in state %s", e, s, stored.Removing, a.state)
	}
	if <-refused {
		if stored.State != string(s) {
			t.Errorf("%s while %s was refused and led to %s", e, s, stored.State)
		}
		return "·"
	}
	return stored.State
}

// Every state can be reached, every living state can be stopped or lost, and
// nothing but a resurrection leads out of a stopped one.
func TestLifecycleSound(t *testing.T) {
	reached := map[State]bool{}
	var walk func(State)
	walk = func(s State) {
		if reached[s] {
			return
		}
		reached[s] = true
		for _, e := range events {
			for _, f := range allFacts() {
				if to, err := s.On(e, f); err == nil {
					walk(to)
				}
			}
		}
	}
	walk(Starting)
	for _, s := range append(states, Gone) {
		if !reached[s] {
			t.Errorf("%s cannot be reached", s)
		}
	}
	for _, s := range states {
		for _, e := range events {
			_, err := s.On(e, Facts{})
			if !s.Living() && (err == nil) != (e == Resurrect) {
				t.Errorf("%s while %s: %v", e, s, err)
			}
			if s.Living() && e == Lost && err != nil {
				t.Errorf("a dead server's %s agent cannot be lost", s)
			}
			if s.Living() && s != Stopping && e == Stop && err != nil {
				t.Errorf("a %s agent cannot be stopped", s)
			}
		}
	}
}

func allFacts() (all []Facts) {
	for _, c := range append(causes, ByNobody) {
		for _, busy := range []bool{false, true} {
			all = append(all, Facts{Busy: busy, Cause: c}, Facts{Busy: busy, Cause: c, Resume: Ripped})
		}
	}
	return all
}

// bareSupervisor has a store and nothing that runs.
func bareSupervisor(t testing.TB) *Supervisor {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(t.Context(), filepath.Join(dir, "db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	files, err := artifacts.Open(filepath.Join(dir, "agents"), db.ID())
	if err != nil {
		t.Fatal(err)
	}
	sup, err := New(t.Context(), Config{Store: db, Artifacts: files, StateDir: dir, HostPi: dir, Init: "none", Limits: DefaultLimits()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sup.Close)
	return sup
}

// golden compares got with a file, or rewrites it with -update.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is stale; run the test with -update\n%s", path, got)
	}
}
