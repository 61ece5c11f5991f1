package artifacts_test

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pi-mcp/artifacts"
)

func TestSizesAndSession(t *testing.T) {
	d, p := newAgent(t)
	write(t, p.StdoutLog, "12345")
	write(t, p.ErrorLog, "123")
	if got, want := d.Sizes(), (artifacts.Sizes{Stdout: 5, Stderr: 3, Session: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	f, err := d.Session()
	check(t, err)
	defer f.Close()
	if content, err := io.ReadAll(f); string(content) != "{}\n" {
		t.Errorf("session: %q, %v", content, err)
	}
	check(t, os.Remove(p.Session))
	check(t, unix.Mkfifo(p.Session, 0o600))
	if _, err := d.Session(); err == nil {
		t.Error("opened a FIFO as the session file")
	}
	if got := d.Sizes().Session; got != 0 {
		t.Errorf("a FIFO has size %d", got)
	}
}

func TestWritePiStartsAnew(t *testing.T) {
	d, p := newAgent(t)
	check(t, d.WritePi(map[string][]byte{"auth.json": []byte("secret")}))
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, "precious")
	check(t, os.Remove(filepath.Join(p.Pi, "auth.json")))
	check(t, os.Symlink(outside, filepath.Join(p.Pi, "auth.json")))
	write(t, filepath.Join(p.Pi, "extensions/left/behind.ts"), "evil")
	deep(t, p.Pi, 40)

	check(t, d.WritePi(map[string][]byte{"auth.json": []byte("new"), "sub/x.json": []byte("x")}))
	if got := names(t, p.Pi); strings.Join(got, " ") != "auth.json sub" {
		t.Errorf("pi holds %q", got)
	}
	for path, want := range map[string]string{filepath.Join(p.Pi, "auth.json"): "new", outside: "precious"} {
		if got, err := os.ReadFile(path); string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	info, err := os.Lstat(filepath.Join(p.Pi, "auth.json"))
	check(t, err)
	if info.Mode() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	for _, bad := range []string{"../x", "/etc/x", ".", ""} {
		if err := d.WritePi(map[string][]byte{bad: nil}); err == nil {
			t.Errorf("wrote %q", bad)
		}
	}
}

func TestWritePiReplacesALink(t *testing.T) {
	d, p := newAgent(t)
	elsewhere := t.TempDir()
	write(t, filepath.Join(elsewhere, "auth.json"), "precious")
	check(t, os.Remove(p.Pi))
	check(t, os.Symlink(elsewhere, p.Pi))
	check(t, d.WritePi(map[string][]byte{"auth.json": []byte("new")}))
	if got, _ := os.ReadFile(filepath.Join(elsewhere, "auth.json")); string(got) != "precious" {
		t.Errorf("wrote through the link: %q", got)
	}
	if got, _ := os.ReadFile(filepath.Join(p.Pi, "auth.json")); string(got) != "new" {
		t.Errorf("auth.json: %q", got)
	}
}

func TestMountPoint(t *testing.T) {
	d, p := newAgent(t)
	check(t, d.MountPoint("proj/src", true))
	check(t, d.MountPoint("proj/src", true)) // a second start
	check(t, d.MountPoint("proj/.env", false))
	check(t, d.MountPoint("proj/.env", false))
	for path, dir := range map[string]bool{"proj/src": true, "proj/.env": false} {
		info, err := os.Lstat(filepath.Join(p.Tmp, path))
		check(t, err)
		if info.IsDir() != dir || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", path, info.Mode())
		}
	}
	write(t, filepath.Join(p.Tmp, "proj/notes"), "kept")
	check(t, d.MountPoint("proj/notes", false))
	if got, _ := os.ReadFile(filepath.Join(p.Tmp, "proj/notes")); string(got) != "kept" {
		t.Errorf("what was there became %q", got)
	}
}

func TestMountPointNamesWhatIsInTheWay(t *testing.T) {
	d, p := newAgent(t)
	outside := t.TempDir()
	check(t, os.Mkdir(filepath.Join(p.Tmp, "real"), 0o700))
	check(t, os.Symlink(outside, filepath.Join(p.Tmp, "out")))
	check(t, os.Symlink("real", filepath.Join(p.Tmp, "in")))
	check(t, os.Symlink("nowhere", filepath.Join(p.Tmp, "dangling")))
	check(t, unix.Mkfifo(filepath.Join(p.Tmp, "fifo"), 0o600))
	write(t, filepath.Join(p.Tmp, "file"), "")
	check(t, d.MountPoint("real/x", true)) // the control

	for _, c := range []struct {
		rel  string
		dir  bool
		want string
	}{
		{"out", true, "tmp/out is a symlink"}, {"out/x", true, "tmp/out is a symlink"},
		{"out", false, "tmp/out is a symlink"}, {"in/x/y", true, "tmp/in is a symlink"},
		{"dangling", true, "tmp/dangling is a symlink"}, {"dangling", false, "tmp/dangling is a symlink"},
		{"file", true, "tmp/file is a file"}, {"file/x", true, "tmp/file is a file"},
		{"real", false, "tmp/real is a directory"}, {"fifo", false, "tmp/fifo is a fifo"},
		{"../x", true, "below tmp"}, {"/x", true, "below tmp"}, {".", true, "below tmp"},
		{"", true, "below tmp"}, {"a\x00b", true, "below tmp"}, {"real/../x/../../y", true, "below tmp"},
	} {
		if err := d.MountPoint(c.rel, c.dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want %q", c.rel, err, c.want)
		}
	}
	if left := names(t, outside); len(left) > 0 {
		t.Errorf("made outside: %q", left)
	}
	if left := names(t, filepath.Join(p.Tmp, "real")); len(left) != 1 {
		t.Errorf("made through a link: %q", left)
	}
}

func TestAgentSurvivesItsTrashing(t *testing.T) {
	s, _ := newStore(t)
	check(t, s.Create(id, nil))
	d, err := s.Agent(id)
	check(t, err)
	defer d.Close()
	log, err := d.Log(artifacts.Stdout, 0)
	check(t, err)
	defer log.Close()
	check(t, s.Trash(id))
	check(t, s.EmptyTrash())
	if _, err := log.Write([]byte("late")); err != nil {
		t.Errorf("a log that was open: %v", err)
	}
	if _, err := d.ReadLog(t.Context(), artifacts.Stdout, artifacts.Range{}); err == nil {
		t.Error("read a log that is gone")
	}
	if got := d.Tail(artifacts.Stdout, 10); got != "" {
		t.Errorf("tail: %q", got)
	}
}

// socket leaves a Unix socket at path, as an agent's program does.
func socket(t *testing.T, path string) {
	t.Helper()
	t.Chdir(filepath.Dir(path)) // a socket's path may have 107 bytes
	l, err := net.Listen("unix", filepath.Base(path))
	check(t, err)
	t.Cleanup(func() { l.Close() })
}
