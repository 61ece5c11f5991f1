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
	if g, err := db.GroupByToken(ctx, hash[:], false); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown token: %q, %v", g, err)
	}
	group, err := db.GroupByToken(ctx, hash[:], true)
	if err != nil || group == "" || group == "default" {
		t.Errorf("new group %q, %v", group, err)
	}
	for _, create := range []bool{false, true} {
		if again, err := open(t, path).GroupByToken(ctx, hash[:], create); again != group || err != nil {
			t.Errorf("create %v: %q, %v; want %q", create, again, err, group)
		}
	}
	hash[0]++
	if other, err := db.GroupByToken(ctx, hash[:], true); other == group || err != nil {
		t.Errorf("another token: %q, %v", other, err)
	}
	// Otherwise all who forget to hash their token would share a group.
	for _, hash := range [][]byte{nil, {}, []byte("short")} {
		if g, err := db.GroupByToken(ctx, hash, true); err == nil {
			t.Errorf("the hash %q has the group %q", hash, g)
		}
	}
}

func TestOneGroupIsMade(t *testing.T) {
	path := fresh(t)
	dbs := []*store.DB{open(t, path), open(t, path)}
	groups := make([]string, 32)
	var all sync.WaitGroup
	for i := range groups {
		all.Go(func() {
			var err error
			groups[i], err = dbs[i%2].GroupByToken(t.Context(), make([]byte, 32), true)
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, g := range groups {
		if g != groups[0] {
			t.Fatalf("one token, many groups: %s", groups)
		}
	}
}
