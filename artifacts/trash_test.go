package artifacts_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pi-mcp/artifacts"
)

// names lists a directory.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestTrashAndEmptyTrash(t *testing.T) {
	s, root := newStore(t)
	check(t, s.Create(id, nil))
	check(t, s.Create("other", nil))
	write(t, filepath.Join(s.Paths(id).Tmp, "a/b/c/file"), "x")
	check(t, os.Symlink(s.Paths("other").Tmp, filepath.Join(s.Paths(id).Tmp, "link")))
	write(t, filepath.Join(s.Paths("other").Tmp, "kept"), "x")

	check(t, s.Trash(id))
	if _, err := s.Agent(id); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Trash: %v", err)
	}
	trashed := names(t, filepath.Join(root, ".trash"))
	if len(trashed) != 1 || !strings.HasPrefix(trashed[0], id+".") {
		t.Errorf("the trash holds %q", trashed)
	}
	check(t, s.Trash(id)) // again: it is absent
	check(t, s.Create(id, nil))
	check(t, s.Trash(id)) // a second directory of the same id
	check(t, s.EmptyTrash())
	if left := names(t, filepath.Join(root, ".trash")); len(left) > 0 {
		t.Errorf("left in the trash: %q", left)
	}
	if _, err := os.Stat(filepath.Join(s.Paths("other").Tmp, "kept")); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	check(t, s.EmptyTrash())
}

func TestWithoutTheMarkerNothingIsDeleted(t *testing.T) {
	s, root := newStore(t)
	other, err := artifacts.Open(root, "db-two")
	check(t, err)
	check(t, s.Create(id, nil))
	write(t, filepath.Join(root, "plain/file"), "precious")
	write(t, filepath.Join(root, "file"), "precious")
	write(t, filepath.Join(root, ".new-thing/file"), "precious")
	write(t, filepath.Join(root, ".trash/plain.X/file"), "precious")
	check(t, os.Symlink(filepath.Join(root, "plain"), filepath.Join(root, "link")))

	for _, name := range []string{"plain", "file", "link"} {
		if err := s.Trash(name); err == nil {
			t.Errorf("trashed %s", name)
		}
	}
	if err := other.Trash(id); err == nil {
		t.Error("trashed another database's agent")
	}
	check(t, s.Trash(id)) // the control
	check(t, other.EmptyTrash())
	if got := names(t, filepath.Join(root, ".trash")); len(got) != 2 {
		t.Errorf("another database emptied our trash: %q", got)
	}
	check(t, s.EmptyTrash())
	for _, path := range []string{"plain/file", "file", ".new-thing/file", ".trash/plain.X/file"} {
		if content, err := os.ReadFile(filepath.Join(root, path)); string(content) != "precious" {
			t.Errorf("%s: %v", path, err)
		}
	}
	if got := names(t, filepath.Join(root, ".trash")); len(got) != 1 {
		t.Errorf("the trash holds %q", got)
	}
}

func TestEmptyTrashDeletesWhatTheAgentClosed(t *testing.T) {
	s, root := newStore(t)
	check(t, s.Create(id, nil))
	tmp := s.Paths(id).Tmp
	for _, dir := range []string{"closed/in/side", "closed/b", "x/closed/c"} {
		write(t, filepath.Join(tmp, dir, "file"), "x")
	}
	trash := filepath.Join(root, ".trash")
	asOwner(t, root, func() {
		for _, dir := range []string{"x/closed", "closed/in/side", "closed/in", "closed"} {
			check(t, os.Chmod(filepath.Join(tmp, dir), 0))
		}
		if err := os.RemoveAll(tmp); err == nil {
			t.Error("the closed directories are open")
		}
		check(t, s.Trash(id))
		check(t, s.EmptyTrash())
	})
	if left := names(t, trash); len(left) > 0 {
		t.Errorf("left in the trash: %q", left)
	}
}

func TestADeletionCutShortIsFinished(t *testing.T) {
	s, root := newStore(t)
	trash := filepath.Join(root, ".trash")
	// The marker goes last, so these are the states that a crash can leave.
	check(t, os.Mkdir(filepath.Join(trash, "a.EMPTY"), 0o700))
	write(t, filepath.Join(trash, "b.MARKER/.pi-mcp"), marker+"\n")
	// And this is a Create that died.
	write(t, filepath.Join(root, ".new-X/.pi-mcp"), marker+"\n")
	write(t, filepath.Join(root, ".new-X/tmp/file"), "")
	check(t, s.EmptyTrash())
	if left := append(names(t, trash), names(t, root)...); len(left) != 1 {
		t.Errorf("left: %q", left)
	}
}

func TestEmptyTrashBySeveralAtOnce(t *testing.T) {
	s, root := newStore(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		check(t, s.Create(name, nil))
		for _, dir := range []string{"p/q/r", "p/s", "t/u"} {
			write(t, filepath.Join(s.Paths(name).Tmp, dir, "file"), "x")
		}
		check(t, s.Trash(name))
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			again, err := artifacts.Open(root, marker)
			if err == nil {
				err = again.EmptyTrash()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if left := names(t, filepath.Join(root, ".trash")); len(left) > 0 {
		t.Errorf("left in the trash: %q", left)
	}
}
