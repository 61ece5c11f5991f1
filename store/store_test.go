package store_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"pi-mcp/store"
)

// open opens the database at path until the end of the test.
func open(t testing.TB, path string) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// fresh is the path of a database that does not exist yet.
func fresh(t testing.TB) string { return filepath.Join(t.TempDir(), "pi-mcp.db") }

// newID is an id greater than all before it.
func newID(t testing.TB) string {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}

// agent is a stopped agent with a value in few fields.
func agent(t testing.TB, group, state string) store.Agent {
	t.Helper()
	at := time.UnixMilli(1_700_000_000_000).UTC()
	return store.Agent{
		ID: newID(t), Group: group, State: state,
		Created: at, Updated: at, LastActivity: at,
	}
}

func insert(t testing.TB, db *store.DB, a store.Agent) store.Agent {
	t.Helper()
	if err := db.Insert(t.Context(), a, 0); err != nil {
		t.Fatal(err)
	}
	return a
}

func insertLiving(t testing.TB, db *store.DB, group string) store.Agent {
	t.Helper()
	a := agent(t, group, "idle")
	a.Living = true
	return insert(t, db, a)
}

// want fails unless the database holds exactly this row.
func want(t testing.TB, db *store.DB, a store.Agent) {
	t.Helper()
	got, err := db.Any(t.Context(), a.ID)
	if err != nil {
		t.Error(err)
	} else if diff := cmp.Diff(a, got); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}
