package store_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/store"
)

// listed makes twelve agents of group g, by turns idle, exited and ripped, among
// others, and returns their ids, newest first.
func listed(t *testing.T, db *store.DB) (ids []string) {
	t.Helper()
	for i := range 12 {
		insert(t, db, agent(t, "other", "idle"))
		gone := agent(t, "g", "idle")
		gone.Removing = true
		insert(t, db, gone)
		a := insert(t, db, agent(t, "g", []string{"idle", "exited", "ripped"}[i%3]))
		ids = append(ids, a.ID)
	}
	slices.Reverse(ids)
	return ids
}

func idsOf(rows []store.Agent) (ids []string) {
	for _, a := range rows {
		ids = append(ids, a.ID)
	}
	return ids
}

func TestList(t *testing.T) {
	db := open(t, fresh(t))
	ids := listed(t, db) // ripped, exited, idle, ripped, ...
	every := func(from, step int) (some []string) {
		for i := from; i < len(ids); i += step {
			some = append(some, ids[i])
		}
		return some
	}
	for name, c := range map[string]struct {
		q     store.Query
		ids   []string
		total int
	}{
		"all":                    {store.Query{}, ids, 12},
		"first page":             {store.Query{Limit: 5}, ids[:5], 12},
		"second page":            {store.Query{Limit: 5, Before: ids[4]}, ids[5:10], 12},
		"last page":              {store.Query{Limit: 5, Before: ids[9]}, ids[10:], 12},
		"beyond":                 {store.Query{Limit: 5, Before: ids[11]}, nil, 12},
		"no limit":               {store.Query{Before: ids[2]}, ids[3:], 12},
		"cursor of another":      {store.Query{Before: "0"}, nil, 12},
		"a state":                {store.Query{States: []string{"exited"}}, every(1, 3), 4},
		"a state's page":         {store.Query{States: []string{"exited"}, Before: ids[1], Limit: 1}, ids[4:5], 4},
		"cursor in other state":  {store.Query{States: []string{"idle"}, Before: ids[3]}, every(5, 3), 4},
		"unknown state":          {store.Query{States: []string{"none", `"]`}}, nil, 0},
		"a state and an unknown": {store.Query{States: []string{"idle", "none", "idle"}}, every(2, 3), 4},
	} {
		c.q.Group = "g"
		rows, total, err := db.List(t.Context(), c.q)
		if err != nil || total != c.total {
			t.Errorf("%s: total %d, %v; want %d", name, total, err, c.total)
		}
		if diff := cmp.Diff(c.ids, idsOf(rows)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Rows are scanned into the same place one after the other, so what they point to
// must be their own.
func TestListedRowsShareNothing(t *testing.T) {
	db, ctx := open(t, fresh(t)), t.Context()
	var all []store.Agent
	for i := range 3 {
		a := agent(t, "g", "exited")
		if i != 1 {
			a.Write = []string{"/" + a.ID}
			a.LastError, a.RippedAt = &a.ID, new(a.Created.AddDate(i, 0, 0))
			a.ExitCode = &[]int{i}[0]
		}
		a.LastText, a.LastTextBytes = new("some text"), 9
		insert(t, db, a)
		a.LastText = nil // not read
		all = append(all, a)
	}
	slices.Reverse(all)
	rows, _, err := db.List(ctx, store.Query{Group: "g"})
	if diff := cmp.Diff(all, rows); diff != "" || err != nil {
		t.Errorf("%v, rows (-want +got):\n%s", err, diff)
	}
}

// Pages that are read while agents come and go show every agent that was there
// all the time, once.
func TestPagesHoldStill(t *testing.T) {
	db, ctx := open(t, fresh(t)), t.Context()
	ids := listed(t, db)
	q := store.Query{Group: "g", Limit: 3}
	var seen []string
	for {
		rows, _, err := db.List(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) == 0 {
			break
		}
		seen = append(seen, idsOf(rows)...)
		q.Before = seen[len(seen)-1]
		insert(t, db, agent(t, "g", "idle"))
		if err := db.Delete(ctx, q.Before); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(ids, seen); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
