package store_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"pi-mcp/store"
)

// adopted runs Adopt and returns the ids that were handed over, after ending their
// rows.
func adopted(t *testing.T, db *store.DB) (ids []string) {
	t.Helper()
	err := db.Adopt(t.Context(), func(ctx context.Context, rows []store.Agent) error {
		ids = append(ids, idsOf(rows)...)
		return endAll(ctx, db, rows)
	})
	if err != nil {
		t.Error(err)
	}
	return ids
}

func wantPID(t *testing.T, db *store.DB, owner string, wantPID int, wantAlive bool) {
	t.Helper()
	if pid, alive := db.OwnerPID(owner); pid != wantPID || alive != wantAlive {
		t.Errorf("owner %s: pid %d, alive %v; want %d, %v", owner, pid, alive, wantPID, wantAlive)
	}
}

func TestOwnersInOneProcess(t *testing.T) {
	path := fresh(t)
	db, other := open(t, path), open(t, path)
	a := insertLiving(t, other, "g")
	a.Owner = other.Owner()
	wantPID(t, db, db.Owner(), os.Getpid(), true)
	wantPID(t, db, other.Owner(), os.Getpid(), true)
	if ids := adopted(t, db); ids != nil {
		t.Errorf("adopted %v of a live server", ids)
	}
	want(t, db, a)

	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	wantPID(t, db, other.Owner(), 0, false)
	if diff := cmp.Diff([]string{a.ID}, adopted(t, db)); diff != "" {
		t.Errorf("adopted (-want +got):\n%s", diff)
	}
	a.Living, a.Owner, a.State = false, "", "exited"
	want(t, db, a)
	if ids := adopted(t, db); ids != nil {
		t.Errorf("adopted %v again", ids)
	}
}

// F53: two servers on one database; neither touches the other's live agents.
func TestF53OwnersInTwoProcesses(t *testing.T) {
	path := fresh(t)
	db := open(t, path)
	mine := insertLiving(t, db, "g")
	id := newID(t)
	c := start(t, path, "hold", id)
	owner := c.owner(t)
	c.line(t)

	wantPID(t, db, owner, c.Process.Pid, true)
	if ids := adopted(t, db); ids != nil {
		t.Errorf("adopted %v of a live server", ids)
	}
	other := start(t, path, "adopt")
	other.line(t)
	other.say(t)
	if said := other.end(t); said != "" {
		t.Errorf("another server adopted %s", said)
	}
	mine.Owner = db.Owner()
	want(t, db, mine)
	if a, err := db.Agent(t.Context(), "g", id); err != nil || a.Owner != owner || !a.Living {
		t.Errorf("the other's row: %+v, %v", a, err)
	}

	c.end(t) // closes its database
	wantPID(t, db, owner, 0, false)
	if diff := cmp.Diff([]string{id}, adopted(t, db)); diff != "" {
		t.Errorf("adopted (-want +got):\n%s", diff)
	}
}

func TestCrashIsFoundByTheNextOpen(t *testing.T) {
	path, id := fresh(t), newID(t)
	c := start(t, path, "hold", id)
	owner := c.owner(t)
	c.line(t)
	lock := filepath.Join(filepath.Dir(path), "owners", owner)
	if _, err := os.Stat(lock); err != nil {
		t.Error(err)
	}
	c.kill()

	db := open(t, path)
	wantPID(t, db, owner, c.Process.Pid, false)
	if diff := cmp.Diff([]string{id}, adopted(t, db)); diff != "" {
		t.Errorf("adopted (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(lock); !os.IsNotExist(err) {
		t.Errorf("the dead server's lock file: %v", err)
	}
}

// A database that was copied, or whose owners were swept away.
func TestMissingLockFile(t *testing.T) {
	path := fresh(t)
	db := open(t, path)
	a := agent(t, "g", "idle")
	a.Living, a.Owner = true, uuid.NewString()
	insert(t, db, a)
	if diff := cmp.Diff([]string{a.ID}, adopted(t, db)); diff != "" {
		t.Errorf("adopted (-want +got):\n%s", diff)
	}
	left, err := os.ReadDir(filepath.Join(filepath.Dir(path), "owners"))
	if err != nil || len(left) != 1 || left[0].Name() != db.Owner() {
		t.Errorf("left %v, %v", left, err)
	}
}

// What is not a lock file stays, and an owner that would lead out of the directory
// of owners is an error.
func TestForeignFilesAmongOwners(t *testing.T) {
	path := fresh(t)
	db := open(t, path)
	owners := filepath.Join(filepath.Dir(path), "owners")
	note := filepath.Join(owners, "README")
	if err := os.WriteFile(note, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	dead := filepath.Join(owners, uuid.NewString())
	if err := os.WriteFile(dead, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	adopted(t, db)
	if _, err := os.Stat(note); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("a lock file without rows: %v", err)
	}

	a := agent(t, "g", "idle")
	a.Living, a.Owner = true, "../pi-mcp.db"
	insert(t, db, a)
	if err := db.Adopt(t.Context(), nil); err == nil {
		t.Error("locked a file outside of owners")
	}
	want(t, db, a)
}

// Two ways to one file must meet in one directory of owners.
func TestSymlinksMeet(t *testing.T) {
	path := fresh(t)
	db := open(t, path)
	a := insertLiving(t, db, "g")
	a.Owner = db.Owner()
	dir := t.TempDir()
	if err := os.Symlink(filepath.Dir(path), filepath.Join(dir, "dir")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, filepath.Join(dir, "file")); err != nil {
		t.Fatal(err)
	}
	for _, way := range []string{filepath.Join(dir, "dir", filepath.Base(path)), filepath.Join(dir, "file")} {
		other := open(t, way)
		wantPID(t, other, db.Owner(), os.Getpid(), true)
		if ids := adopted(t, other); ids != nil {
			t.Errorf("by %s adopted %v of a live server", way, ids)
		}
	}
	want(t, db, a)
}
