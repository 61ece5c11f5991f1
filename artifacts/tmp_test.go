package artifacts_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"pi-mcp/artifacts"
)

func TestF37PathsThatLeaveTmpAreRefused(t *testing.T) {
	d, p := newAgent(t)
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, filepath.Join(outside, "file"), "secret")
	write(t, filepath.Join(p.Pi, "auth.json"), "secret")
	write(t, filepath.Join(p.Tmp, "dir/file"), "mine")
	for name, target := range map[string]string{
		"passwd": "/etc/passwd", "environ": "/proc/self/environ", "out": outside, "up": "../pi",
		"dir/up": "../../pi", "abs": p.Tmp + "/dir", "in": "dir", "dir/in": "../dir/file",
	} {
		check(t, os.Symlink(target, filepath.Join(p.Tmp, name)))
	}
	for _, ok := range []string{"dir/file", "in/file", "dir/in", "./dir//file"} { // the controls
		c, err := d.ReadTmp(t.Context(), ok, artifacts.Range{})
		if err != nil || c.Content != "mine" {
			t.Errorf("%s: %q, %v", ok, c.Content, err)
		}
	}
	for _, bad := range []string{
		"passwd", "environ", "out/file", "up/auth.json", "dir/up/auth.json", "abs/file",
		"../pi/auth.json", "dir/../../pi/auth.json", "dir/../dir/file", "..", "/etc/passwd", "/tmp/dir/file",
		p.Tmp + "/dir/file", "dir/file\x00", "\x00", strings.Repeat("a/", 40_000) + "x",
	} {
		c, err := d.ReadTmp(t.Context(), bad, artifacts.Range{})
		refused(t, err, "path")
		if c.Content != "" {
			t.Errorf("%q gave %q", bad, c.Content)
		}
		_, err = d.ListTmp(t.Context(), filepath.Dir(bad)+"/"+filepath.Base(bad), true, 10)
		refused(t, err, "path")
		_, err = d.GrepTmp([]string{"x"}, "", bad)
		refused(t, err, "path")
		_, err = d.GrepTmp([]string{"x"}, bad, "")
		refused(t, err, "cwd")
	}
	_, err := d.ReadTmp(t.Context(), "/tmp/x", artifacts.Range{})
	refused(t, err, "path", "relative")
}

func TestWhatIsNoRegularFile(t *testing.T) {
	d, p := newAgent(t)
	write(t, filepath.Join(p.Tmp, "file"), "text")
	check(t, unix.Mkfifo(filepath.Join(p.Tmp, "fifo"), 0o600))
	check(t, os.Mkdir(filepath.Join(p.Tmp, "dir"), 0o700))
	check(t, os.Symlink("loop", filepath.Join(p.Tmp, "loop")))
	check(t, os.Symlink("fifo", filepath.Join(p.Tmp, "tofifo")))
	socket(t, filepath.Join(p.Tmp, "socket"))
	_, err := d.ReadTmp(t.Context(), "file", artifacts.Range{}) // the control
	check(t, err)
	for path, word := range map[string]string{
		"": "list_tmp", ".": "list_tmp", "dir": "list_tmp", "absent": "list_tmp", "fifo": "fifo", "tofifo": "fifo",
		"loop": "link", "socket": "socket", "file/x": "file/x",
	} {
		_, err := d.ReadTmp(t.Context(), path, artifacts.Range{})
		refused(t, err, "path", word)
	}
	for _, path := range []string{"fifo", "socket", "loop", "absent"} {
		_, err := d.GrepTmp([]string{"x"}, "", path)
		refused(t, err, "path")
		_, err = d.GrepTmp([]string{"x", path}, "", "")
		refused(t, err, "args")
	}
	_, err = d.ListTmp(t.Context(), "file", true, 10)
	refused(t, err, "path", "read_tmp")
	asOwner(t, p.Dir, func() {
		check(t, os.Chmod(filepath.Join(p.Tmp, "file"), 0))
		_, err := d.ReadTmp(t.Context(), "file", artifacts.Range{})
		refused(t, err, "path", "permission")
	})
}

// A program of the agent exchanges a directory with a link to the outside for
// as long as the reader reads.
func TestF37ADirectorySwappedWithALink(t *testing.T) {
	d, p := newAgent(t)
	outside := t.TempDir()
	write(t, filepath.Join(outside, "file"), "outside")
	write(t, filepath.Join(outside, "only-outside"), "")
	write(t, filepath.Join(p.Tmp, "dir/file"), "inside")
	check(t, os.Symlink(outside, filepath.Join(p.Tmp, "link")))

	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	wg.Go(func() {
		for ctx.Err() == nil {
			err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(p.Tmp, "dir"),
				unix.AT_FDCWD, filepath.Join(p.Tmp, "link"), unix.RENAME_EXCHANGE)
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	var read, denied, listed int
	for i := 0; i < 500 || read == 0 || denied == 0 || listed == 0; i++ {
		c, err := d.ReadTmp(t.Context(), "dir/file", artifacts.Range{})
		var refusal *artifacts.ArgError
		switch {
		case err == nil && c.Content == "inside":
			read++
		case errors.As(err, &refusal):
			denied++
		default:
			t.Fatalf("read %q, %v", c.Content, err)
		}
		l, err := d.ListTmp(t.Context(), "", true, 100)
		check(t, err)
		for _, e := range l.Entries {
			if strings.Contains(e.Path, "only-outside") {
				t.Fatalf("listed %s", e.Path)
			}
			if strings.HasSuffix(e.Path, "/file") {
				listed++
			}
		}
	}
}

func TestAnAgentWithoutTmp(t *testing.T) {
	d, p := newAgent(t)
	check(t, os.Remove(p.Tmp))
	var refusal *artifacts.ArgError
	for _, err := range []error{
		second(d.ReadTmp(t.Context(), "x", artifacts.Range{})),
		second(d.ListTmp(t.Context(), "", true, 10)),
		second(d.GrepTmp([]string{"x"}, "", "")),
	} {
		if !errors.Is(err, fs.ErrNotExist) || errors.As(err, &refusal) {
			t.Errorf("got %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
