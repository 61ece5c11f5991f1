package artifacts_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"pi-mcp/artifacts"
)

// list lists and returns the paths alone.
func list(t *testing.T, d *artifacts.Dir, path string, recursive bool, most int) (artifacts.Listing, []string) {
	t.Helper()
	l, err := d.ListTmp(t.Context(), path, recursive, most)
	check(t, err)
	if l.Count != len(l.Entries) || l.Recursive != recursive {
		t.Errorf("count %d for %d entries, recursive %v", l.Count, len(l.Entries), l.Recursive)
	}
	var paths []string
	for _, e := range l.Entries {
		paths = append(paths, e.Path)
	}
	return l, paths
}

func TestListTmp(t *testing.T) {
	d, p := newAgent(t)
	write(t, filepath.Join(p.Tmp, "b.txt"), "12345")
	write(t, filepath.Join(p.Tmp, "a/deep/file"), "1")
	check(t, os.Symlink("/etc/passwd", filepath.Join(p.Tmp, "leak")))
	check(t, os.Symlink("..", filepath.Join(p.Tmp, "a/up")))
	check(t, unix.Mkfifo(filepath.Join(p.Tmp, "fifo"), 0o600))
	socket(t, filepath.Join(p.Tmp, "socket"))
	at := time.Unix(1_700_000_000, 500_000_000)
	check(t, os.Chtimes(filepath.Join(p.Tmp, "b.txt"), at, at))

	got, _ := list(t, d, "", true, 1000)
	want := artifacts.Listing{
		Path: ".", Recursive: true, Count: 8, Warnings: []string{},
		Entries: []artifacts.Entry{
			{Path: "a", Type: "directory"}, {Path: "a/deep", Type: "directory"},
			{Path: "a/deep/file", Type: "file", Size: 1}, {Path: "a/up", Type: "symlink", Size: 2, Target: ".."},
			{Path: "b.txt", Type: "file", Size: 5, Mtime: 1_700_000_000.5}, {Path: "fifo", Type: "fifo"},
			{Path: "leak", Type: "symlink", Size: 11, Target: "/etc/passwd"}, {Path: "socket", Type: "socket"},
		},
	}
	// Times and the sizes of directories are not the test's, but for one.
	for i, e := range got.Entries {
		if e.Path != "b.txt" {
			got.Entries[i].Mtime = 0
		}
		if e.Type == "directory" {
			got.Entries[i].Size = 0
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	if l, paths := list(t, d, "", false, 1000); strings.Join(paths, " ") != "a b.txt fifo leak socket" || l.Truncated {
		t.Errorf("not recursive: %q", paths)
	}
	if l, paths := list(t, d, "./a/", true, 1000); strings.Join(paths, " ") != "a/deep a/deep/file a/up" || l.Path != "a" {
		t.Errorf("of a: %q in %s", paths, l.Path)
	}
	if _, paths := list(t, d, "a/deep", true, 1000); strings.Join(paths, " ") != "a/deep/file" {
		t.Errorf("of a/deep: %q", paths)
	}
}

func TestAnEmptyListingIsAnArray(t *testing.T) {
	d, _ := newAgent(t)
	l, _ := list(t, d, "", true, 10)
	got, err := json.Marshal(l)
	check(t, err)
	const want = `{"path":".","recursive":true,"count":0,"truncated":false,"entries":[],"warnings":[]}`
	if string(got) != want {
		t.Errorf("%s", got)
	}
}

func TestTruncatedListings(t *testing.T) {
	d, p := newAgent(t)
	for _, name := range []string{"a/x/1", "a/x/2", "b", "c"} {
		write(t, filepath.Join(p.Tmp, name), "")
	}
	for _, c := range []struct {
		most      int
		want      string
		truncated bool
	}{
		{-5, "a", true}, {0, "a", true}, {1, "a", true}, {2, "a b", true}, {3, "a b c", true},
		{4, "a a/x b c", true}, {5, "a a/x a/x/1 b c", true}, {6, "a a/x a/x/1 a/x/2 b c", false},
		{1 << 40, "a a/x a/x/1 a/x/2 b c", false},
	} {
		l, paths := list(t, d, "", true, c.most)
		if got := strings.Join(paths, " "); got != c.want || l.Truncated != c.truncated {
			t.Errorf("%d: %q, truncated %v", c.most, got, l.Truncated)
		}
	}
	if l, paths := list(t, d, "", false, 3); l.Truncated {
		t.Errorf("all three: %q is truncated", paths)
	}
}

func TestStrangeNames(t *testing.T) {
	d, p := newAgent(t)
	for _, name := range []string{"new\nline", "not\xffutf8", "back\\slash", "é", "dir\xfe/file", " ", "-r", `"<>`} {
		write(t, filepath.Join(p.Tmp, name), "x")
	}
	check(t, os.Symlink("to\xff", filepath.Join(p.Tmp, "link")))
	l, paths := list(t, d, "", true, 100)
	want := []string{" ", `"<>`, "-r", "back\\slash", `dir\xfe`, `dir\xfe/file`, "link", "new\nline", `not\xffutf8`, "é"}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Error(diff)
	}
	if got := l.Entries[6].Target; got != `to\xff` {
		t.Errorf("target %q", got)
	}
	for _, name := range []string{"new\nline", "back\\slash", "é", " ", "-r"} {
		_, err := d.ReadTmp(t.Context(), name, artifacts.Range{})
		check(t, err)
	}
}

func TestF39ALoopOfLinks(t *testing.T) {
	d, p := newAgent(t)
	check(t, os.Symlink(".", filepath.Join(p.Tmp, "loop")))
	check(t, os.Symlink("b", filepath.Join(p.Tmp, "a")))
	check(t, os.Symlink("a", filepath.Join(p.Tmp, "b")))
	if l, paths := list(t, d, "", true, 100); strings.Join(paths, " ") != "a b loop" || l.Truncated {
		t.Errorf("%q", paths)
	}
	_, err := d.ListTmp(t.Context(), "a", true, 10)
	refused(t, err, "path", "loop")
}

// A tree that no path can name is listed up to the limits and then deleted,
// with few descriptors.
func TestF39ADeepTree(t *testing.T) {
	s, root := newStore(t)
	check(t, s.Create(id, nil))
	deep(t, s.Paths(id).Tmp, 4000)
	d, err := s.Agent(id)
	check(t, err)
	defer d.Close()
	if l, paths := list(t, d, "", true, 1000); len(paths) != 1000 || !l.Truncated {
		t.Errorf("%d entries, truncated %v", len(paths), l.Truncated)
	}
	withFewFiles(t, 50, func() {
		l, _ := list(t, d, "", true, 5000)
		if size := twice(t, l); size > 8<<20 || !l.Truncated || l.Count < 1000 {
			t.Errorf("%d entries take %d bytes, truncated %v", l.Count, size, l.Truncated)
		}
	})
	withFewFiles(t, 20, func() {
		check(t, s.Trash(id))
		check(t, s.EmptyTrash())
	})
	if left := names(t, filepath.Join(root, ".trash")); len(left) > 0 {
		t.Errorf("left in the trash: %q", left)
	}
}

func TestAWideAndDeepTree(t *testing.T) {
	d, p := newAgent(t)
	for i := range 40 { // more than are kept open
		write(t, filepath.Join(p.Tmp, fmt.Sprint(i, "/x/y/file")), "")
	}
	if l, paths := list(t, d, "", true, 1000); len(paths) != 160 || l.Truncated || len(l.Warnings) > 0 {
		t.Errorf("%d entries, %q", len(paths), l.Warnings)
	}
}

func TestF39ManyFiles(t *testing.T) {
	d, p := newAgent(t)
	const many = 12_000
	for i := range many {
		check(t, unix.Mknod(filepath.Join(p.Tmp, fmt.Sprintf("file-with-a-rather-long-name-%06d", i)), unix.S_IFREG|0o600, 0))
	}
	took := allocated(func() {
		l, paths := list(t, d, "", true, 10)
		if len(paths) != 10 || paths[9] != "file-with-a-rather-long-name-000009" || !l.Truncated {
			t.Errorf("%q", paths)
		}
	})
	if took > many*150 { // every name passes through once
		t.Errorf("allocated %d bytes", took)
	}
	if l, paths := list(t, d, "", true, 1<<20); len(paths) != artifacts.MaxEntries || !l.Truncated {
		t.Errorf("%d entries", len(paths))
	}
}

func TestDirectoriesThatCannotBeRead(t *testing.T) {
	d, p := newAgent(t)
	write(t, filepath.Join(p.Tmp, "closed/file"), "")
	write(t, filepath.Join(p.Tmp, "open/file"), "")
	asOwner(t, p.Dir, func() {
		check(t, os.Chmod(filepath.Join(p.Tmp, "closed"), 0))
		l, paths := list(t, d, "", true, 100)
		if strings.Join(paths, " ") != "closed open open/file" {
			t.Errorf("%q", paths)
		}
		if len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0], "closed: permission denied") {
			t.Errorf("warnings: %q", l.Warnings)
		}
		_, err := d.ListTmp(t.Context(), "closed", true, 100)
		refused(t, err, "path", "permission")
		check(t, os.Chmod(filepath.Join(p.Tmp, "closed"), 0o700))
	})
}

func TestAListingEndsWithItsContext(t *testing.T) {
	d, _ := newAgent(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := d.ListTmp(ctx, "", true, 10) // the control
	check(t, err)
	cancel()
	if _, err := d.ListTmp(ctx, "", true, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
