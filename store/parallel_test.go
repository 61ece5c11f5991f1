package store_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/google/uuid"

	"pi-mcp/store"
)

// F52: 64 calls at once that read and then write; none fails with "database is
// locked", and no write is lost. Here they come from two openings, while two other
// processes do the same.
func TestF52ParallelReadThenWrite(t *testing.T) {
	const each = 20
	path := fresh(t)
	dbs := []*store.DB{open(t, path), open(t, path)}
	var ids []string
	for range 66 {
		ids = append(ids, insert(t, dbs[0], agent(t, "g", "idle")).ID)
	}
	children := []*child{
		start(t, path, "count", ids[64], strconv.Itoa(10*each)),
		start(t, path, "count", ids[65], strconv.Itoa(10*each)),
	}
	for _, c := range children {
		c.line(t)
	}

	var all sync.WaitGroup
	for _, c := range children {
		c.say(t)
	}
	for i, id := range ids[:64] {
		all.Go(func() {
			if err := countUp(t.Context(), dbs[i%2], id, each); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, c := range children {
		c.end(t)
	}
	for i, id := range ids {
		want := int64(each)
		if i >= 64 {
			want *= 10
		}
		if a, err := dbs[0].Any(t.Context(), id); err != nil || a.SettleCount != want {
			t.Errorf("agent %d: counted %d, %v; want %d", i, a.SettleCount, err, want)
		}
	}
}

// A total that does not fit its rows would be of another moment.
func TestListIsOfOneMoment(t *testing.T) {
	path := fresh(t)
	db, other := open(t, path), open(t, path)
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			a := store.Agent{ID: uuid.NewString(), Group: "g"}
			err := errors.Join(other.Insert(t.Context(), a, 0), other.Delete(t.Context(), a.ID))
			if err != nil {
				t.Error(err)
			}
		}
	})
	for range 500 {
		rows, total, err := db.List(t.Context(), store.Query{Group: "g"})
		if err != nil || len(rows) != total {
			t.Errorf("%d rows, total %d, %v", len(rows), total, err)
		}
	}
	close(stop)
	writing.Wait()
}

// A caller that has gone must not take the connection of the others with it.
func TestEndedContext(t *testing.T) {
	db := open(t, fresh(t))
	a := insert(t, db, agent(t, "g", "idle"))
	ended, end := context.WithCancel(t.Context())
	end()
	for range 100 {
		a.SettleCount++
		if err := db.Save(ended, a); !errors.Is(err, context.Canceled) {
			t.Fatalf("saved: %v", err)
		}
	}
	if err := db.Save(t.Context(), a); err != nil {
		t.Error(err)
	}
	want(t, db, a)
}
