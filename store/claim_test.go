package store_test

import (
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pi-mcp/store"
)

// Of many claims at once, from two openings of one file, one wins.
func TestClaimOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	one, two := open(t, path), open(t, path)
	a := agent(t, "red", "ripped")
	if err := one.Insert(t.Context(), a, 0); err != nil {
		t.Fatal(err)
	}
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 32 {
		db := one
		if i%2 == 1 {
			db = two
		}
		wg.Go(func() {
			switch got, err := db.Claim(t.Context(), a.ID, "starting", time.Now()); {
			case err == nil:
				won.Add(1)
				if got.State != "starting" || got.Resume != "ripped" || !got.Living || got.Owner != db.Owner() {
					t.Errorf("claimed: %+v", got)
				}
			case !errors.Is(err, store.ErrNotFound):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := won.Load(); n != 1 {
		t.Errorf("%d claims succeeded", n)
	}
}

// A tombstone hides the row from requests and keeps it from being claimed; a
// living row gets none.
func TestTombstone(t *testing.T) {
	db := open(t, filepath.Join(t.TempDir(), "db"))
	living, dead := agent(t, "red", "ripped"), agent(t, "red", "ripped")
	living.Living = true
	for _, a := range []store.Agent{living, dead} {
		if err := db.Insert(t.Context(), a, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Tombstone(t.Context(), living.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a living row: %v", err)
	}
	for range 2 { // the second finds its own
		if err := db.Tombstone(t.Context(), dead.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.Agent(t.Context(), "red", dead.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a tombstone was found: %v", err)
	}
	if _, err := db.Agent(t.Context(), "red", living.ID); err != nil {
		t.Errorf("the control: %v", err)
	}
	if _, err := db.Claim(t.Context(), dead.ID, "starting", time.Now()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a tombstone was claimed: %v", err)
	}
}
