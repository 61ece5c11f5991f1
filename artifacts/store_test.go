package artifacts_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/artifacts"
)

func TestCreateMakesThePrivateLayout(t *testing.T) {
	s, root := newStore(t)
	check(t, s.Create(id, []byte("first\nsecond\n")))

	got := map[string]string{}
	check(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		check(t, err)
		info, err := e.Info()
		check(t, err)
		rel, _ := filepath.Rel(root, path)
		got[rel] = info.Mode().String()
		return nil
	}))
	want := map[string]string{
		".": "drwx------", ".trash": "drwx------", id: "drwx------",
		id + "/.pi-mcp": "-rw-------", id + "/agent_session.jsonl": "-rw-------",
		id + "/stdout.log": "-rw-------", id + "/errors.log": "-rw-------",
		id + "/tmp": "drwx------", id + "/home": "drwx------", id + "/pi": "drwx------",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	p := s.Paths(id)
	wantPaths := artifacts.Paths{
		Dir: filepath.Join(root, id), StdoutLog: filepath.Join(root, id, "stdout.log"),
		ErrorLog: filepath.Join(root, id, "errors.log"), Session: filepath.Join(root, id, "agent_session.jsonl"),
		Tmp: filepath.Join(root, id, "tmp"), Home: filepath.Join(root, id, "home"), Pi: filepath.Join(root, id, "pi"),
	}
	if diff := cmp.Diff(wantPaths, p); diff != "" {
		t.Error(diff)
	}
	session, err := os.ReadFile(p.Session)
	check(t, err)
	if string(session) != "first\nsecond\n" {
		t.Errorf("session file: %q", session)
	}
}

func TestCreateTwiceKeepsTheFirst(t *testing.T) {
	s, _ := newStore(t)
	check(t, s.Create(id, []byte("first\n")))
	if err := s.Create(id, []byte("second\n")); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("got %v", err)
	}
	session, err := os.ReadFile(s.Paths(id).Session)
	check(t, err)
	if string(session) != "first\n" {
		t.Errorf("session file: %q", session)
	}
}

func TestCreateThatFailsLeavesNothing(t *testing.T) {
	s, root := newStore(t)
	check(t, os.Chmod(root, 0o500)) // nothing can be made
	asOwner(t, root, func() {
		if err := s.Create(id, nil); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("got %v", err)
		}
	})
	check(t, os.Chmod(root, 0o700))
	asOwner(t, root, func() { check(t, s.Create(id, nil)) }) // the control
	left, err := os.ReadDir(root)
	check(t, err)
	if len(left) != 2 { // .trash and the agent
		t.Errorf("left over: %v", left)
	}
}

func TestManyCreatesAtOnce(t *testing.T) {
	s, _ := newStore(t)
	var wg sync.WaitGroup
	made := make(chan string, 64)
	for i := range 64 {
		wg.Go(func() {
			name := string(rune('a'+i%16)) + "1"
			if err := s.Create(name, nil); err == nil {
				made <- name
			}
			if err := s.EmptyTrash(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	close(made)
	seen := map[string]bool{}
	for name := range made {
		seen[name] = true
		d, err := s.Agent(name)
		check(t, err)
		if d.Sizes() != (artifacts.Sizes{}) {
			t.Errorf("%s: %+v", name, d.Sizes())
		}
		check(t, d.Close())
	}
	if len(seen) != 16 {
		t.Errorf("%d of 16 agents have a directory", len(seen))
	}
}

func TestOnlyOwnDirectoriesAreOpened(t *testing.T) {
	s, root := newStore(t)
	check(t, s.Create(id, nil))
	d, err := s.Agent(id) // the control
	check(t, err)
	check(t, d.Close())

	other, err := artifacts.Open(root, "db-two")
	check(t, err)
	if _, err := other.Agent(id); err == nil {
		t.Error("opened the directory of another database")
	}
	check(t, os.Mkdir(filepath.Join(root, "plain"), 0o700))
	if _, err := s.Agent("plain"); err == nil {
		t.Error("opened a directory without a marker")
	}
	if _, err := s.Agent("absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent: got %v", err)
	}
}

func TestIDsThatAreNoNames(t *testing.T) {
	s, _ := newStore(t)
	check(t, s.Create("a-1", nil)) // the control
	for _, bad := range []string{"", ".", "..", ".trash", "a/b", "../x", "/etc", "a\x00b", "-a", "a b"} {
		refused(t, s.Create(bad, nil), "agent_id")
		refused(t, s.Trash(bad), "agent_id")
		_, err := s.Agent(bad)
		refused(t, err, "agent_id")
	}
}

func TestOpenRefusesAnUnusableMarker(t *testing.T) {
	root := t.TempDir()
	for _, bad := range []string{"", " a", "a\n"} {
		if _, err := artifacts.Open(root, bad); err == nil {
			t.Errorf("took the marker %q", bad)
		}
	}
	_, err := artifacts.Open(root, "a")
	check(t, err)
	write(t, filepath.Join(root, "file"), "")
	if _, err := artifacts.Open(filepath.Join(root, "file"), "a"); err == nil {
		t.Error("took a file for a directory")
	}
}
