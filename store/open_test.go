package store_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"pi-mcp/store"
)

func wantMode(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Error(err)
	} else if got := info.Mode().Perm(); got != mode {
		t.Errorf("%s: mode %v, want %v", path, got, mode)
	}
}

func TestFilesArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	path := filepath.Join(dir, "db")
	db := open(t, path)
	insert(t, db, agent(t, "g", "idle"))

	for _, d := range []string{filepath.Dir(dir), dir, filepath.Join(dir, "owners")} {
		wantMode(t, d, 0o700)
	}
	for _, f := range []string{path, path + "-wal", path + "-shm", filepath.Join(dir, "owners", db.Owner())} {
		wantMode(t, f, 0o600)
	}
}

// A directory that was there is the user's: it stays as open as it was.
func TestOpenFilesAreMadePrivate(t *testing.T) {
	dir := t.TempDir()
	path, owners := filepath.Join(dir, "db"), filepath.Join(dir, "owners")
	for _, err := range []error{
		os.Chmod(dir, 0o755),
		os.WriteFile(path, nil, 0o644),
		os.Chmod(path, 0o644),
		os.Mkdir(owners, 0o755),
		os.Chmod(owners, 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	open(t, path)
	wantMode(t, dir, 0o755)
	wantMode(t, path, 0o600)
	wantMode(t, owners, 0o700)
}

func TestNamesWithSpecialCharacters(t *testing.T) {
	for _, name := range []string{"a b", "what?mode=memory", "100%41", "a#b", "ä;'\"&", "-x"} {
		path := filepath.Join(t.TempDir(), name, "db "+name)
		a := insert(t, open(t, path), agent(t, "g", "idle"))
		want(t, open(t, path), a)
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("no database\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	dangling := filepath.Join(dir, "dangling")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), dangling); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"not a database":     text,
		"a directory":        dir,
		"below a file":       filepath.Join(text, "db"),
		"symlink to nowhere": dangling,
	} {
		db, err := store.Open(t.Context(), path)
		if err == nil {
			db.Close()
			t.Errorf("%s: opened", name)
		} else if !strings.HasPrefix(err.Error(), "cannot open the database "+path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "owners")); len(left) > 0 {
		t.Errorf("a failed opening left %v", left)
	}
}

func TestIdentity(t *testing.T) {
	path := fresh(t)
	db, again, other := open(t, path), open(t, path), open(t, fresh(t))
	for _, id := range []string{db.ID(), db.Owner()} {
		if err := uuid.Validate(id); err != nil || id != strings.ToLower(id) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if v := uuid.MustParse(db.ID()); v.Version() != 4 || v.Variant() != uuid.RFC4122 {
		t.Errorf("id %v: version %v, variant %v", v, v.Version(), v.Variant())
	}
	if db.ID() != again.ID() {
		t.Errorf("one database, two ids: %s, %s", db.ID(), again.ID())
	}
	if db.ID() == other.ID() {
		t.Errorf("two databases, one id: %s", db.ID())
	}
	if db.Owner() == again.Owner() {
		t.Errorf("two openings, one owner: %s", db.Owner())
	}
}

// Making, migrating and switching to the write-ahead log happen once, whoever
// comes first.
func TestManyOpenANewFile(t *testing.T) {
	path := fresh(t)
	children := []*child{start(t, path, "open"), start(t, path, "open")}
	ids := make([]string, 16)
	var all sync.WaitGroup
	for _, c := range children {
		c.say(t)
	}
	for i := range ids {
		all.Go(func() {
			db, err := store.Open(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			ids[i] = db.ID()
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, c := range children {
		_, id, _ := strings.Cut(c.line(t), " ")
		ids = append(ids, id)
		c.end(t)
	}
	for _, id := range ids {
		if id != ids[0] {
			t.Errorf("ids differ: %s", ids)
			break
		}
	}
}

func TestClose(t *testing.T) {
	path := fresh(t)
	db, err := store.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	a := insert(t, db, agent(t, "g", "idle"))
	for range 2 {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := db.Any(t.Context(), a.ID); err == nil {
		t.Error("a closed database answers")
	}
	left, err := fs.Glob(os.DirFS(filepath.Dir(path)), "*")
	if err != nil || strings.Join(left, " ") != "owners pi-mcp.db" {
		t.Errorf("left %v, %v", left, err)
	}
	if left, err := os.ReadDir(filepath.Join(filepath.Dir(path), "owners")); err != nil || len(left) > 0 {
		t.Errorf("owners left: %v, %v", left, err)
	}
	want(t, open(t, path), a)
}

func TestErrorsNameTheStep(t *testing.T) {
	db, ctx := open(t, fresh(t)), t.Context()
	a := insert(t, db, agent(t, "g", "idle"))
	gone := agent(t, "g", "idle")
	_, errAgent := db.Agent(ctx, "g", gone.ID)
	_, errGroup := db.GroupByToken(ctx, make([]byte, 32))
	for _, c := range []struct {
		err     error
		want    string
		missing bool
	}{
		{db.Insert(ctx, a, 0), "cannot insert agent " + a.ID, false},
		{db.Save(ctx, gone), "cannot save agent " + gone.ID, true},
		{db.Delete(ctx, gone.ID), "cannot delete agent " + gone.ID, true},
		{errAgent, "cannot read agent " + gone.ID, true},
		{errGroup, "cannot find the token's group", true},
	} {
		if c.err == nil || !strings.HasPrefix(c.err.Error(), c.want+": ") {
			t.Errorf("got %v, want %s: ...", c.err, c.want)
		}
		if errors.Is(c.err, store.ErrNotFound) != c.missing {
			t.Errorf("%v: ErrNotFound should be %v", c.err, c.missing)
		}
	}
}
