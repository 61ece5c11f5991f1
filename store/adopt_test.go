package store_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"pi-mcp/store"
)

// deadRows inserts rows of servers that are no more, so many each, and returns
// their ids in order.
func deadRows(t *testing.T, db *store.DB, owners, each int) (ids []string) {
	t.Helper()
	for range owners {
		owner := uuid.NewString()
		for range each {
			a := agent(t, "g", "active")
			a.Living, a.Owner = true, owner
			ids = append(ids, insert(t, db, a).ID)
		}
	}
	return ids
}

// Every row is handed to exactly one of those who adopt at the same time.
func TestAdoptRace(t *testing.T) {
	path := fresh(t)
	db, other := open(t, path), open(t, path)
	ids := deadRows(t, db, 20, 3)
	children := []*child{start(t, path, "adopt"), start(t, path, "adopt")}
	for _, c := range children {
		c.line(t) // it is open
	}

	var mu sync.Mutex
	var taken []string
	var all sync.WaitGroup
	for _, c := range children {
		c.say(t)
	}
	for _, d := range []*store.DB{db, other, db, other} { // twice each: within one opening too
		all.Go(func() {
			err := d.Adopt(t.Context(), func(ctx context.Context, rows []store.Agent) error {
				mu.Lock()
				taken = append(taken, idsOf(rows)...)
				mu.Unlock()
				return endAll(ctx, d, rows)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, c := range children {
		taken = append(taken, strings.Fields(c.end(t))...)
	}
	slices.Sort(taken)
	if diff := cmp.Diff(ids, taken); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}
}

// While one adopts, another who comes leaves its rows alone, and sees who it is.
func TestAdoptWhileAdopting(t *testing.T) {
	path := fresh(t)
	db, other := open(t, path), open(t, path)
	ids := deadRows(t, db, 1, 2)
	calls := 0
	err := db.Adopt(t.Context(), func(ctx context.Context, rows []store.Agent) error {
		calls++
		if diff := cmp.Diff(ids, idsOf(rows)); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
		if ids := adopted(t, other); ids != nil {
			t.Errorf("adopted twice: %v", ids)
		}
		if _, alive := other.OwnerPID(rows[0].Owner); !alive {
			t.Error("the owner looks dead")
		}
		return endAll(ctx, db, rows)
	})
	if err != nil || calls != 1 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

// A server that only ever asks who is alive never keeps another from adopting.
func TestAskingIsNotHolding(t *testing.T) {
	path := fresh(t)
	db, other := open(t, path), open(t, path)
	for range 50 {
		ids := deadRows(t, db, 1, 1)
		a, err := db.Any(t.Context(), ids[0])
		if err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		var asking sync.WaitGroup
		asking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					other.OwnerPID(a.Owner)
				}
			}
		})
		if diff := cmp.Diff(ids, adopted(t, db)); diff != "" {
			t.Errorf("adopted (-want +got):\n%s", diff)
		}
		close(stop)
		asking.Wait()
	}
}

func TestAdoptTombstones(t *testing.T) {
	path, ctx := fresh(t), t.Context()
	db := open(t, path)
	a := agent(t, "g", "exited")
	a.Removing, a.Owner = true, uuid.NewString()
	insert(t, db, a)
	insert(t, db, agent(t, "g", "exited")) // nobody's
	var got []store.Agent
	err := db.Adopt(ctx, func(ctx context.Context, rows []store.Agent) error {
		got = rows
		return db.Delete(ctx, rows[0].ID)
	})
	if diff := cmp.Diff([]store.Agent{a}, got); diff != "" || err != nil {
		t.Errorf("%v, rows (-want +got):\n%s", err, diff)
	}
	if _, err := db.Any(ctx, a.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the tombstone is still there: %v", err)
	}
}

// Nothing is lost by a failure: what failed is offered again, the rest is done.
func TestAdoptFails(t *testing.T) {
	path := fresh(t)
	db := open(t, path)
	ids := deadRows(t, db, 3, 1)
	broken := errors.New("broken")
	err := db.Adopt(t.Context(), func(ctx context.Context, rows []store.Agent) error {
		if rows[0].ID == ids[1] {
			return broken
		}
		return endAll(ctx, db, rows)
	})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "cannot adopt from the server ") {
		t.Errorf("got %v", err)
	}
	for range 2 { // left as they are, rows are offered again too
		var again []string
		err = db.Adopt(t.Context(), func(_ context.Context, rows []store.Agent) error {
			again = append(again, idsOf(rows)...)
			return nil
		})
		if diff := cmp.Diff(ids[1:2], again); diff != "" || err != nil {
			t.Errorf("%v, again (-want +got):\n%s", err, diff)
		}
	}
}

// Servers come and go while others adopt: nobody fails to open because an adopter
// takes its new lock file for that of a dead server.
func TestOpenWhileAdopting(t *testing.T) {
	path := fresh(t)
	db := open(t, path)
	stop := make(chan struct{})
	var adopting, opening sync.WaitGroup
	adopting.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			err := db.Adopt(t.Context(), func(_ context.Context, rows []store.Agent) error {
				t.Errorf("adopted %v", idsOf(rows))
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
	for range 4 {
		opening.Go(func() {
			for range 10 {
				comeAndGo(t, path)
			}
		})
	}
	opening.Wait()
	close(stop)
	adopting.Wait()
}

// comeAndGo is the life of a server with one agent.
func comeAndGo(t *testing.T, path string) {
	d, err := store.Open(t.Context(), path)
	if err != nil {
		t.Error(err)
		return
	}
	a := store.Agent{ID: uuid.NewString(), Group: "g", Living: true}
	if err := d.Insert(t.Context(), a, 0); err != nil {
		t.Error(err)
	}
	if _, alive := d.OwnerPID(d.Owner()); !alive {
		t.Error("not alive")
	}
	if err := d.Delete(t.Context(), a.ID); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
