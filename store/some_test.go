package store_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/store"
)

// Some finds what Agent finds, and nothing else, with as much of the text as is
// asked for.
func TestSome(t *testing.T) {
	db := open(t, fresh(t))
	long := "ä\x00" + strings.Repeat("long", 50_000)
	a, b := agent(t, "g", "idle"), agent(t, "g", "exited")
	a.LastText, a.LastTextBytes = &long, int64(len(long))
	b.Write = []string{"/b"}
	insert(t, db, a)
	insert(t, db, b)
	gone := agent(t, "g", "exited")
	gone.Removing = true
	insert(t, db, gone)
	foreign := insert(t, db, agent(t, "other", "idle"))
	insert(t, db, agent(t, "g", "idle")) // not asked for
	ids := []string{b.ID, gone.ID, foreign.ID, a.ID, "none", b.ID, `"]`}
	for text, beginning := range map[int]*string{0: nil, 1: new("\xc3"), 7: new("ä\x00long"), 1 << 20: &long} {
		want := []store.Agent{a, b}
		want[0].LastText = beginning
		rows, err := db.Some(t.Context(), "g", ids, text)
		if diff := cmp.Diff(want, sorted(rows)); diff != "" || err != nil {
			t.Errorf("text %d: %v (-want +got):\n%.2000s", text, err, diff)
		}
	}
	if rows, err := db.Some(t.Context(), "g", nil, 0); len(rows) > 0 || err != nil {
		t.Errorf("no ids: %v, %v", rows, err)
	}
}

func sorted(rows []store.Agent) []store.Agent {
	slices.SortFunc(rows, func(a, b store.Agent) int { return strings.Compare(a.ID, b.ID) })
	return rows
}
