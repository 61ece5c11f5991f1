package store_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/store"
)

// fill sets every field below v, each to another value made from n.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.UnixMilli(1_700_000_000_123 + int64(*n)).UTC()))
			return
		}
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.String:
		v.SetString(strings.Repeat("ä\x00\n\"'", *n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n) << 20)
	case reflect.Uint64:
		v.SetUint(uint64(*n) << 40)
	case reflect.Float64:
		v.SetFloat(float64(*n) / 7)
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic("no value for a " + v.Kind().String())
	}
}

// A field without a column, or one that has another's, comes back different.
func TestEveryFieldIsKept(t *testing.T) {
	db, ctx := open(t, fresh(t)), t.Context()
	var a, b store.Agent
	n := 0
	fill(reflect.ValueOf(&a).Elem(), &n)
	parent := insertLiving(t, db, "any")
	a.ID, a.Parent, a.Removing = newID(t), parent.ID, false
	insert(t, db, a)
	want(t, db, a)

	fill(reflect.ValueOf(&b).Elem(), &n)
	b.ID = a.ID
	if err := db.Save(ctx, b); err != nil {
		t.Fatal(err)
	}
	keep := func(x *store.Agent) { // what Save leaves alone
		x.ID, x.Group, x.Parent, x.Depth, x.Created = a.ID, a.Group, a.Parent, a.Depth, a.Created
		x.Ancestors, x.Account, x.Ceiling, x.Descendants = a.Ancestors, a.Account, a.Ceiling, a.Descendants
	}
	keep(&b)
	want(t, db, b)

	empty := store.Agent{}
	keep(&empty)
	empty.Write = []string{}
	if err := db.Save(ctx, empty); err != nil {
		t.Fatal(err)
	}
	empty.Write = nil
	want(t, db, empty)
}

func TestGroupsDoNotMeet(t *testing.T) {
	db, ctx := open(t, fresh(t)), t.Context()
	a := insertLiving(t, db, "red")
	if _, err := db.Agent(ctx, "blue", a.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("blue reads red's agent: %v", err)
	}
	if rows, total, err := db.List(ctx, store.Query{Group: "blue"}); len(rows) > 0 || total > 0 || err != nil {
		t.Errorf("blue lists %v, total %d, %v", rows, total, err)
	}
	if _, n, err := db.Count(ctx, "blue"); n[0] > 0 || err != nil {
		t.Errorf("blue counts %d, %v", n, err)
	}
	if rows, total, err := db.List(ctx, store.Query{}); len(rows) > 0 || total > 0 || err != nil {
		t.Errorf("no group lists %v, total %d, %v", rows, total, err)
	}

	a.Owner = db.Owner()
	got, err := db.Agent(ctx, "red", a.ID)
	if diff := cmp.Diff(a, got); diff != "" || err != nil {
		t.Errorf("red reads (-want +got), %v:\n%s", err, diff)
	}
	if rows, total, err := db.List(ctx, store.Query{Group: "red"}); len(rows) != 1 || total != 1 || err != nil {
		t.Errorf("red lists %v, total %d, %v", rows, total, err)
	}
}

func TestTombstones(t *testing.T) {
	db, ctx := open(t, fresh(t)), t.Context()
	a := insert(t, db, agent(t, "g", "exited"))
	a.Removing = true
	if err := db.Save(ctx, a); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Agent(ctx, "g", a.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a tombstone is read: %v", err)
	}
	if rows, total, err := db.List(ctx, store.Query{Group: "g"}); len(rows) > 0 || total > 0 || err != nil {
		t.Errorf("a tombstone is listed: %v, total %d, %v", rows, total, err)
	}
	a.Owner = db.Owner()
	want(t, db, a)
	if err := db.Delete(ctx, a.ID); err != nil {
		t.Error(err)
	}
	if _, err := db.Any(ctx, a.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a deleted row is read: %v", err)
	}
}

func TestOwnerFollowsLiving(t *testing.T) {
	db, ctx := open(t, fresh(t)), t.Context()
	a := agent(t, "g", "exited")
	a.Owner = "somebody"
	insert(t, db, a)
	for _, c := range []struct {
		living, removing bool
		owner, want      string
	}{
		{true, false, "", db.Owner()},
		{true, false, "somebody", "somebody"},
		{false, true, "", db.Owner()},
		{true, true, "somebody", "somebody"},
		{false, false, "somebody", ""},
	} {
		a.Living, a.Removing, a.Owner = c.living, c.removing, c.owner
		if err := db.Save(ctx, a); err != nil {
			t.Error(err)
		}
		a.Owner = c.want
		want(t, db, a)
	}
}

// What a writer does not know to be gone must not come back with its Save.
func TestSaveOfAGoneRow(t *testing.T) {
	path, ctx := fresh(t), t.Context()
	db, other := open(t, path), open(t, path)
	a := insert(t, db, agent(t, "g", "idle"))
	if err := other.Delete(ctx, a.ID); err != nil {
		t.Fatal(err)
	}
	if err := db.Save(ctx, a); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("saved: %v", err)
	}
	if err := db.Delete(ctx, a.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if _, err := db.Any(ctx, a.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it came back: %v", err)
	}
}

func TestCount(t *testing.T) {
	db, ctx := open(t, fresh(t)), t.Context()
	insertLiving(t, db, "red")
	insertLiving(t, db, "red")
	b := agent(t, "blue", "idle")
	b.Living, b.Account = true, "green"
	insert(t, db, b)
	insert(t, db, agent(t, "red", "exited"))

	check := func(wantAll int, want ...int) {
		t.Helper()
		all, in, err := db.Count(ctx, "red", "blue", "green")
		if all != wantAll || !slices.Equal(in, want) || err != nil {
			t.Errorf("counted %d, %d, %v; want %d, %d", all, in, err, wantAll, want)
		}
	}
	check(3, 2, 1, 1)
	b.Living = false
	if err := db.Save(ctx, b); err != nil {
		t.Fatal(err)
	}
	check(2, 2, 0, 0)
}
