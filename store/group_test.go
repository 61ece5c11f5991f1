package store_test

import (
	"crypto/sha256"
	"errors"
	"sync"
	"testing"

	"pi-mcp/store"
)

func TestGroupByToken(t *testing.T) {
	path, ctx := fresh(t), t.Context()
	db := open(t, path)
	hash := sha256.Sum256([]byte("a token"))
	if g, err := db.GroupByToken(ctx, hash[:]); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown token: %v, %v", g, err)
	}
	group, err := db.MakeGroup(ctx, hash[:], false)
	if err != nil || group.ID == "" || group.ID == "default" || group.ByAgent {
		t.Errorf("new group %v, %v", group, err)
	}
	again, err := open(t, path).GroupByToken(ctx, hash[:])
	if again != group || err != nil {
		t.Errorf("%v, %v; want %v", again, err, group)
	}
	if again, err := open(t, path).MakeGroup(ctx, hash[:], true); again != group || err != nil {
		t.Errorf("an agent made the client's group its own: %v, %v; want %v", again, err, group)
	}
	hash[0]++
	if other, err := db.MakeGroup(ctx, hash[:], true); other.ID == group.ID || !other.ByAgent || err != nil {
		t.Errorf("another token: %v, %v", other, err)
	}
	// Otherwise all who forget to hash their token would share a group.
	for _, hash := range [][]byte{nil, {}, []byte("short")} {
		if g, err := db.MakeGroup(ctx, hash, false); err == nil {
			t.Errorf("the hash %q has the group %v", hash, g)
		}
	}
}

func TestOneGroupIsMade(t *testing.T) {
	path := fresh(t)
	dbs := []*store.DB{open(t, path), open(t, path)}
	groups := make([]store.Group, 32)
	var all sync.WaitGroup
	for i := range groups {
		all.Go(func() {
			var err error
			groups[i], err = dbs[i%2].MakeGroup(t.Context(), make([]byte, 32), false)
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, g := range groups {
		if g != groups[0] {
			t.Fatalf("one token, many groups: %v", groups)
		}
	}
}
