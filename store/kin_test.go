package store_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/store"
)

// below inserts an agent that another one starts.
func below(t testing.TB, db *store.DB, parent store.Agent, group, state string) store.Agent {
	t.Helper()
	a := agent(t, group, state)
	a.Living = state != "ripped"
	a.Parent, a.Depth = parent.ID, parent.Depth+1
	a.Ancestors = append(append([]string{}, parent.Ancestors...), parent.ID)
	if err := db.Insert(t.Context(), a, many); err != nil {
		t.Fatal(err)
	}
	return a
}

// A tree is listed by kin within a group, by parent, and all of it across groups.
func TestKin(t *testing.T) {
	db := open(t, fresh(t))
	top := insertLiving(t, db, "g")
	left, right := below(t, db, top, "g", "idle"), below(t, db, top, "h", "idle")
	under, stopped := below(t, db, left, "g", "active"), below(t, db, right, "g", "ripped")
	other := insertLiving(t, db, "g")

	kin := func(of store.Agent, want ...store.Agent) {
		t.Helper()
		rows, total, err := db.List(t.Context(), store.Query{Group: "g", Kin: of.ID})
		if diff := cmp.Diff(ids(want...), ids(rows...)); err != nil || diff != "" || total != len(want) {
			t.Errorf("%v, %d in all %s", err, total, diff)
		}
	}
	kin(top, stopped, under, left, top)
	kin(left, under, left)
	kin(right, stopped) // itself is in another group
	kin(other, other)
	rows, total, err := db.List(t.Context(), store.Query{Group: "g", Kin: top.ID, States: []string{"idle"}, Before: top.ID})
	if err != nil || total != 2 || len(rows) > 0 {
		t.Errorf("of a state, beyond the last: %v of %d, %v", rows, total, err)
	}

	children, err := db.Children(t.Context(), "g", []string{top.ID, left.ID, right.ID, other.ID})
	want := map[string][]string{top.ID: {left.ID}, left.ID: {under.ID}, right.ID: {stopped.ID}}
	if diff := cmp.Diff(want, children); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}

	for _, tc := range []struct {
		of     store.Agent
		living bool
		want   []string
	}{
		{top, false, ids(left, right, under, stopped)},
		{top, true, ids(left, right, under)},
		{right, false, ids(stopped)},
		{right, true, nil},
		{other, false, nil},
	} {
		got, err := db.Descendants(t.Context(), tc.of.ID, tc.living)
		if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
			t.Errorf("living %v: %v %s", tc.living, err, diff)
		}
	}
}

func ids(rows ...store.Agent) (all []string) {
	for _, r := range rows {
		all = append(all, r.ID)
	}
	return all
}

// Every ancestor counts a new agent, the one that is full is named, and neither the
// row nor a count of it is left. One that was never ready is given back when it goes.
func TestDescendantsAreCounted(t *testing.T) {
	db := open(t, fresh(t))
	top := insertLiving(t, db, "g")
	mid := below(t, db, top, "g", "idle")
	count := func(a store.Agent) int64 {
		row, err := db.Any(t.Context(), a.ID)
		if err != nil {
			t.Fatal(err)
		}
		return row.Descendants
	}
	add := func(parent store.Agent, ready bool, most int64) (store.Agent, error) {
		a := agent(t, "h", "idle")
		a.Parent, a.Ready, a.Ancestors = parent.ID, ready, append(append([]string{}, parent.Ancestors...), parent.ID)
		return a, db.Insert(t.Context(), a, most)
	}
	failed, err := add(mid, false, 2)
	if err != nil || count(top) != 2 || count(mid) != 1 {
		t.Errorf("one more: %v, %d and %d", err, count(top), count(mid))
	}
	refused, err := add(mid, true, 2)
	full, ok := errors.AsType[*store.FullError](err)
	if !ok || full.ID != top.ID || count(top) != 2 || count(mid) != 1 {
		t.Errorf("one too many: %v, %d and %d", err, count(top), count(mid))
	}
	if _, err := db.Any(t.Context(), refused.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the refused row: %v", err)
	}
	if err := db.Delete(t.Context(), failed.ID); err != nil || count(top) != 1 || count(mid) != 0 {
		t.Errorf("one that was never ready: %v, %d and %d", err, count(top), count(mid))
	}
	again, err := add(mid, true, 2)
	if err == nil {
		err = db.Delete(t.Context(), again.ID)
	}
	if err != nil || count(top) != 2 || count(mid) != 1 {
		t.Errorf("one that was: %v, %d and %d", err, count(top), count(mid))
	}
	for range 3 {
		_, err = add(mid, true, 1)
		if full, ok := errors.AsType[*store.FullError](err); !ok || full.ID != mid.ID {
			t.Errorf("both are full, and the nearest is to be named: %v", err)
		}
	}
	orphan := insertLiving(t, db, "g")
	orphan.Ancestors = []string{newID(t)}
	if _, err := add(orphan, true, 1); err != nil {
		t.Errorf("an ancestor that is gone counts nothing: %v", err)
	}
	if err := db.Save(t.Context(), stopped(orphan)); err != nil {
		t.Fatal(err)
	}
	for _, parent := range []store.Agent{orphan, {ID: newID(t)}} {
		if a, err := add(parent, true, many); !errors.Is(err, store.ErrOrphan) {
			t.Errorf("below one that does not live: %v, %v", a.ID, err)
		}
	}
}

// A living agent counts against the group it is in and the one whose limits it is
// under, once.
func TestCountsAccounts(t *testing.T) {
	db := open(t, fresh(t))
	for _, a := range []struct{ group, account string }{{"g", "g"}, {"h", "g"}, {"h", "h"}, {"i", ""}} {
		row := agent(t, a.group, "idle")
		row.Living, row.Account = true, a.account
		insert(t, db, row)
	}
	stopped := agent(t, "g", "ripped")
	stopped.Account = "g"
	insert(t, db, stopped)
	all, in, err := db.Count(t.Context(), "g", "h", "i", "j")
	if diff := cmp.Diff([]int{2, 2, 1, 0}, in); err != nil || all != 4 || diff != "" {
		t.Errorf("%v, %d in all %s", err, all, diff)
	}
}

func stopped(a store.Agent) store.Agent {
	a.Living, a.State = false, "ripped"
	return a
}
