package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/store"
)

// atWork are the states of agents at work in these tests.
var atWork = []string{"active"}

const many = 1 << 40

// family inserts a target and an agent that calls it back. Both live.
func family(t testing.TB, db *store.DB) (target, child store.Agent) {
	t.Helper()
	target = insertLiving(t, db, "g")
	child = agent(t, "other", "idle")
	child.Living, child.Callback = true, target.ID
	return target, insert(t, db, child)
}

// owing saves a row with a debt for each body.
func owing(t testing.TB, db *store.DB, row store.Agent, bodies ...string) {
	t.Helper()
	var debts []store.Debt
	for _, b := range bodies {
		debts = append(debts, store.Debt{Target: row.Callback, Body: b})
	}
	if err := db.SaveOwing(t.Context(), row, debts, store.Bound{Most: many}); err != nil {
		t.Fatal(err)
	}
}

// debts reads what may be told to a target now, as child:seq:body.
func debts(t testing.TB, db *store.DB, target string) (all []string) {
	t.Helper()
	return debtsAt(t, db, target, time.Now(), many)
}

func debtsAt(t testing.TB, db *store.DB, target string, now time.Time, most int64) (all []string) {
	t.Helper()
	found, err := db.Debts(t.Context(), target, now, atWork, most)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range found {
		all = append(all, fmt.Sprintf("%s:%d:%s", d.Child, d.Seq, d.Body))
	}
	creditors, err := db.Creditors(t.Context(), now, atWork, most)
	if err != nil {
		t.Fatal(err)
	}
	if (len(creditors) == 1 && creditors[0] == target) != (len(all) > 0) {
		t.Errorf("there are %d debts, and to be told are %v", len(all), creditors)
	}
	return all
}

func callback(t testing.TB, db *store.DB, child string) store.Callback {
	t.Helper()
	c, err := db.Callback(t.Context(), child)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func said(c store.Callback) string {
	if c.Error == nil {
		return ""
	}
	return *c.Error
}

// A debt is there with the row that causes it or not at all, and numbers go on.
func TestOwe(t *testing.T) {
	db := open(t, fresh(t))
	target, child := family(t, db)
	if c := callback(t, db, child.ID); c != (store.Callback{}) {
		t.Errorf("before: %+v", c)
	}
	child.SettleCount = 1
	owing(t, db, child, "one", "two")
	owing(t, db, child, "three")
	id := child.ID
	if diff := cmp.Diff([]string{id + ":1:one", id + ":2:two", id + ":3:three"}, debts(t, db, target.ID)); diff != "" {
		t.Error(diff)
	}
	if row, err := db.Any(t.Context(), id); err != nil || row.SettleCount != 1 {
		t.Errorf("the row: %+v, %v", row, err)
	}
	if c := callback(t, db, id); c.LastSeq != 3 || c.NotifiedSeq != 0 || c.NotifiedAt != nil || c.Error != nil {
		t.Errorf("after: %+v", c)
	}
	gone := child
	gone.ID = newID(t)
	err := db.SaveOwing(t.Context(), gone, []store.Debt{{Target: target.ID, Body: "x"}}, store.Bound{Most: many})
	if !errors.Is(err, store.ErrNotFound) || len(debts(t, db, target.ID)) != 3 {
		t.Errorf("of a row that is gone: %v, %v", err, debts(t, db, target.ID))
	}
}

// Nobody is owed anything that is removed, or is being removed, or never was.
func TestOweNobody(t *testing.T) {
	db := open(t, fresh(t))
	target, child := family(t, db)
	owing(t, db, child, "one")
	if err := db.Tombstone(t.Context(), target.ID); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("the control, a tombstone for the living: %v", err)
	}
	target.Living, target.State = false, "ripped"
	if err := db.Save(t.Context(), target); err != nil {
		t.Fatal(err)
	}
	owing(t, db, child, "two") // the control: it is only stopped
	if err := db.Tombstone(t.Context(), target.ID); err != nil {
		t.Fatal(err)
	}
	owing(t, db, child, "three")
	if c := callback(t, db, child.ID); c.LastSeq != 2 {
		t.Errorf("owed to a tombstone: %+v", c)
	}
	if err := db.Delete(t.Context(), target.ID); err != nil {
		t.Fatal(err)
	}
	owing(t, db, child, "four")
	all, err := db.OwedBy(t.Context(), child.ID, target.ID, many)
	if err != nil || len(all) > 0 {
		t.Errorf("owed to one that is gone: %v, %v", all, err)
	}
	if c := callback(t, db, child.ID); c.LastSeq != 2 || said(c) == "" {
		t.Errorf("after the removal: %+v", c)
	}
}

// What an agent had to tell outlives it, and its row's removal frees its number.
func TestOweAfterRemoval(t *testing.T) {
	db := open(t, fresh(t))
	target, child := family(t, db)
	child.Living, child.Removing, child.State = false, true, "gone"
	owing(t, db, child, "last words")
	if err := db.Delete(t.Context(), child.ID); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{child.ID + ":1:last words"}, debts(t, db, target.ID)); diff != "" {
		t.Error(diff)
	}
	all, err := db.OwedBy(t.Context(), child.ID, target.ID, many)
	if err == nil {
		err = db.Notified(t.Context(), all, time.Now(), store.Bound{Most: many})
	}
	if err != nil || len(debts(t, db, target.ID)) > 0 {
		t.Errorf("told: %v, %v", err, debts(t, db, target.ID))
	}
}

// The life of a debt: sent, put off with a reason, told.
func TestDebtLife(t *testing.T) {
	db := open(t, fresh(t))
	target, child := family(t, db)
	owing(t, db, child, "one", "two")
	read := func() []store.Debt {
		all, err := db.OwedBy(t.Context(), child.ID, target.ID, many)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	first := read()[:1]
	if err := db.Sending(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if all := read(); !all[0].Sent || all[1].Sent {
		t.Errorf("sent: %+v", all)
	}
	due := time.Now().Add(time.Hour)
	if err := db.Postpone(t.Context(), first, due, "no"); err != nil {
		t.Fatal(err)
	}
	if all := read(); all[0].Tries != 1 || all[1].Tries != 0 || said(callback(t, db, child.ID)) != "no" {
		t.Errorf("put off: %+v", all)
	}
	if n := len(debts(t, db, target.ID)); n != 1 {
		t.Errorf("before it is due: %d debts", n)
	}
	if n := len(debtsAt(t, db, target.ID, due, many)); n != 2 {
		t.Errorf("when it is due: %d debts", n)
	}
	at := time.UnixMilli(1_700_000_000_000).UTC()
	for range 2 { // the second time changes nothing
		if err := db.Notified(t.Context(), first, at, store.Bound{Most: many}); err != nil {
			t.Fatal(err)
		}
		if c := callback(t, db, child.ID); c.NotifiedSeq != 1 || c.LastSeq != 2 || c.Error != nil || !c.NotifiedAt.Equal(at) {
			t.Errorf("told: %+v", c)
		}
	}
	if all := read(); len(all) != 1 || all[0].Body != "two" {
		t.Errorf("left: %+v", all)
	}
}

// A held debt waits for those who work for its child, and for the child itself, but
// not for ever and not once the child is stopped.
func TestHold(t *testing.T) {
	db := open(t, fresh(t))
	target, child := family(t, db)
	worker := agent(t, "third", "active")
	worker.Living, worker.Callback = true, child.ID
	insert(t, db, worker)
	hold := time.Now().Add(time.Hour)
	err := db.SaveOwing(t.Context(), child, []store.Debt{{Target: target.ID, Body: "held", Hold: hold}}, store.Bound{Most: many})
	if err != nil {
		t.Fatal(err)
	}
	save := func(a *store.Agent, state string, living bool) {
		a.State, a.Living = state, living
		if err := db.Save(t.Context(), *a); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(when string, n int) {
		t.Helper()
		if got := debts(t, db, target.ID); len(got) != n {
			t.Errorf("%s: %v", when, got)
		}
	}
	working := func(want ...string) {
		t.Helper()
		got, err := db.Working(t.Context(), child.ID, atWork, many)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	}
	expect("the worker works", 0)
	working(worker.ID)
	if got := debtsAt(t, db, target.ID, hold, many); len(got) != 1 {
		t.Errorf("at the end of the hold: %v", got)
	}
	save(&child, "ripped", false)
	expect("the child is stopped", 1)
	save(&child, "idle", true)
	expect("the child is back", 0)
	worker.State = "idle"
	owing(t, db, worker, "done")
	working(worker.ID)
	found, err := db.Debts(t.Context(), target.ID, time.Now(), atWork, many)
	if err != nil || len(found) > 0 {
		t.Errorf("the worker is not heard yet: %v, %v", found, err)
	}
	all, err := db.OwedBy(t.Context(), worker.ID, child.ID, many)
	if err == nil {
		err = db.Notified(t.Context(), all, time.Now(), store.Bound{Most: many})
	}
	if err != nil {
		t.Fatal(err)
	}
	working()
	expect("the worker is heard", 1)
	save(&child, "active", true)
	expect("the child works on it", 0)
	save(&child, "idle", true)
	expect("all rest", 1)
}

// An agent that has told its target so often is held, to the debt, and says so; a
// client's word to it, to the target or to one above it lets it go on.
func TestBound(t *testing.T) {
	db := open(t, fresh(t))
	target, child := family(t, db)
	above := insertLiving(t, db, "g")
	child = agent(t, "g", "idle")
	child.Living, child.Callback, child.Parent, child.Ancestors = true, target.ID, above.ID, []string{above.ID}
	if err := db.Insert(t.Context(), child, many); err != nil {
		t.Fatal(err)
	}
	stranger := insertLiving(t, db, "g")
	bound := store.Bound{Most: 2, Held: "held"}
	for round, who := range []store.Agent{child, target, above} {
		for n := range 4 {
			err := db.SaveOwing(t.Context(), child, []store.Debt{{Target: target.ID, Body: fmt.Sprint(n)}}, bound)
			if err != nil {
				t.Fatal(err)
			}
		}
		found, err := db.Debts(t.Context(), target.ID, time.Now(), atWork, bound.Most)
		if err != nil || len(found) != 2 {
			t.Fatalf("round %d: not two at once but %v, %v", round, found, err)
		}
		if err := db.Notified(t.Context(), found, time.Now(), bound); err != nil {
			t.Fatal(err)
		}
		if c := callback(t, db, child.ID); said(c) != "held" {
			t.Errorf("round %d: two are told and two are left, and it says %q", round, said(c))
		}
		if err := db.Asked(t.Context(), stranger.ID, "held"); err != nil {
			t.Fatal(err)
		}
		if left := debtsAt(t, db, target.ID, time.Now(), bound.Most); len(left) > 0 {
			t.Errorf("round %d: held are %v", round, left)
		}
		if err := db.Asked(t.Context(), who.ID, "held"); err != nil {
			t.Fatal(err)
		}
		if c := callback(t, db, child.ID); said(c) != "" {
			t.Errorf("round %d: %q although a client has spoken", round, said(c))
		}
		left := debtsAt(t, db, target.ID, time.Now(), bound.Most)
		if len(left) != 2 {
			t.Errorf("round %d: after a client's word %v", round, left)
		}
		all, err := db.OwedBy(t.Context(), child.ID, target.ID, many)
		if err == nil {
			err = db.Notified(t.Context(), all, time.Now(), bound)
		}
		if err == nil {
			err = db.Asked(t.Context(), who.ID, "held")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Many write and read at once, and every debt is told once.
func TestDebtsAtOnce(t *testing.T) {
	db := open(t, fresh(t))
	target, _ := family(t, db)
	const children, each = 8, 16
	var all sync.WaitGroup
	for range children {
		child := agent(t, "g", "idle")
		child.Living, child.Callback = true, target.ID
		insert(t, db, child)
		all.Go(func() {
			for range each {
				err := db.SaveOwing(t.Context(), child, []store.Debt{{Target: target.ID, Body: "x"}}, store.Bound{Most: many})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	told := map[string]bool{}
	for len(told) < children*each && !t.Failed() {
		found, err := db.Debts(t.Context(), target.ID, time.Now(), atWork, many)
		if err == nil {
			err = db.Notified(t.Context(), found, time.Now(), store.Bound{Most: many})
		}
		if err != nil {
			t.Error(err)
		}
		for _, d := range found {
			key := fmt.Sprint(d.Child, d.Seq)
			if told[key] {
				t.Errorf("%s twice", key)
			}
			told[key] = true
		}
	}
	all.Wait()
}

// What is never told does not fill the database: the newest ends are kept. Those that
// are held by the bound are not waited for by the agent's own debts.
func TestOwedIsBounded(t *testing.T) {
	db := open(t, fresh(t))
	target, child := family(t, db)
	below := agent(t, "g", "idle")
	below.Living, below.Callback = true, child.ID
	insert(t, db, below)
	bound := store.Bound{Most: 2, Held: "held"}
	for n := range 1000 {
		err := db.SaveOwing(t.Context(), below, []store.Debt{{Target: child.ID, Body: fmt.Sprint(n)}}, bound)
		if err != nil {
			t.Fatal(err)
		}
	}
	owed, err := db.OwedBy(t.Context(), below.ID, child.ID, many)
	if err != nil || len(owed) != 64 || owed[63].Seq != 1000 || owed[63].Body != "999" {
		t.Fatalf("%d are kept: %v", len(owed), err)
	}
	hold := store.Debt{Target: target.ID, Hold: time.Now().Add(time.Hour), Body: "answer"}
	if err := db.SaveOwing(t.Context(), child, []store.Debt{hold}, bound); err != nil {
		t.Fatal(err)
	}
	if got := debtsAt(t, db, target.ID, time.Now(), bound.Most); len(got) != 1 {
		t.Errorf("the child's own is held for those that are not told: %v", got)
	}
	if working, err := db.Working(t.Context(), child.ID, atWork, bound.Most); len(working) > 0 || err != nil {
		t.Errorf("still at work: %v, %v", working, err)
	}
	// The control: one that can be told is waited for.
	if err := db.Asked(t.Context(), below.ID, "held"); err != nil {
		t.Fatal(err)
	}
	if got := debtsAt(t, db, target.ID, time.Now(), bound.Most); len(got) != 0 {
		t.Errorf("the child's own is not held: %v", got)
	}
	if err := db.Forget(t.Context(), below.ID); err != nil {
		t.Fatal(err)
	}
	if owed, err := db.OwedBy(t.Context(), below.ID, child.ID, many); len(owed) > 0 || err != nil {
		t.Errorf("not forgotten: %v, %v", owed, err)
	}
}

// A client's word in between counts anew, whether or not the debts have been told.
func TestBoundCountsCauses(t *testing.T) {
	db := open(t, fresh(t))
	target, child := family(t, db)
	bound := store.Bound{Most: 2, Held: "held"}
	for n := range 6 {
		if err := db.Asked(t.Context(), child.ID, "held"); err != nil {
			t.Fatal(err)
		}
		if err := db.SaveOwing(t.Context(), child, []store.Debt{{Target: target.ID, Body: fmt.Sprint(n)}}, bound); err != nil {
			t.Fatal(err)
		}
	}
	if got := debtsAt(t, db, target.ID, time.Now(), bound.Most); len(got) != 6 {
		t.Errorf("a client has spoken before each, and to be told are %v", got)
	}
}
