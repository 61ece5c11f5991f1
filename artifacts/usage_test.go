package artifacts_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"pi-mcp/artifacts"
)

// endless is more than anything.
var endless = artifacts.Usage{Bytes: math.MaxInt64, Files: math.MaxInt64}

func usage(t testing.TB, d *artifacts.Dir, most artifacts.Usage) artifacts.Usage {
	t.Helper()
	u, err := d.Usage(t.Context(), most)
	check(t, err)
	return u
}

// blocks is what du would say of one path.
func blocks(t testing.TB, path string) int64 {
	t.Helper()
	var st unix.Stat_t
	check(t, unix.Lstat(path, &st))
	return st.Blocks * 512
}

func TestUsage(t *testing.T) {
	const full = 1 << 20
	kept := strings.Repeat("x", full)
	outside := t.TempDir()
	write(t, filepath.Join(outside, "large"), strings.Repeat("x", 8*full))
	for _, tc := range []struct {
		name    string
		fill    func(p artifacts.Paths)
		files   int64
		content int64 // bytes of files
	}{
		{"nothing", func(artifacts.Paths) {}, 0, 0},
		{"tmp", func(p artifacts.Paths) { write(t, p.Tmp+"/f", kept) }, 1, full},
		{"home", func(p artifacts.Paths) { write(t, p.Home+"/f", kept) }, 1, full},
		{"pi", func(p artifacts.Paths) { write(t, p.Pi+"/f", kept) }, 1, full},
		{"all three, deeper", func(p artifacts.Paths) {
			for _, dir := range []string{p.Tmp, p.Home, p.Pi} {
				write(t, dir+"/a/b/f", kept)
			}
		}, 9, 3 * full},
		{"the logs and the session are not counted", func(p artifacts.Paths) {
			for _, path := range []string{p.StdoutLog, p.ErrorLog, p.Session} {
				write(t, path, kept)
			}
		}, 0, 0},
		{"a sparse file", func(p artifacts.Paths) {
			write(t, p.Tmp+"/f", "")
			check(t, os.Truncate(p.Tmp+"/f", 1<<40))
		}, 1, 0},
		{"hard links, also across the directories", func(p artifacts.Paths) {
			write(t, p.Tmp+"/f", kept)
			check(t, os.Link(p.Tmp+"/f", p.Tmp+"/g"))
			check(t, os.Link(p.Tmp+"/f", p.Home+"/h"))
		}, 3, full},
		{"symlinks to what is outside", func(p artifacts.Paths) {
			check(t, os.Symlink(outside, p.Tmp+"/dir"))
			check(t, os.Symlink(outside+"/large", p.Tmp+"/file"))
			check(t, os.Symlink("..", p.Tmp+"/up"))
			check(t, os.Symlink("/", p.Home+"/root"))
		}, 4, 0},
		{"a FIFO", func(p artifacts.Paths) { check(t, unix.Mkfifo(p.Tmp+"/fifo", 0o600)) }, 1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d, p := newAgent(t)
			tc.fill(p)
			var dirs int64 // directories take blocks, too
			for _, dir := range []string{p.Tmp, p.Home, p.Pi} {
				check(t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
					if e.IsDir() && path != dir {
						dirs += blocks(t, path)
					}
					return err
				}))
			}
			u := usage(t, d, endless)
			if u.Files != tc.files || u.Bytes < tc.content+dirs || u.Bytes > tc.content+dirs+64<<10 {
				t.Errorf("%+v, not %d files and about %d bytes", u, tc.files, tc.content+dirs)
			}
		})
	}
}

// A deep tree takes no more descriptors than a flat one, and all of it is counted:
// at every level there is a branch to come back to.
func TestUsageDeep(t *testing.T) {
	const depth = 4000
	d, p := newAgent(t)
	fd, err := unix.Open(p.Tmp, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	check(t, err)
	for range depth {
		for _, name := range []string{"a", "m", "z"} {
			check(t, unix.Mkdirat(fd, name, 0o700))
		}
		next, err := unix.Openat(fd, "m", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		check(t, err)
		check(t, unix.Close(fd))
		fd = next
	}
	check(t, unix.Close(fd))
	withFewFiles(t, 32, func() {
		if u := usage(t, d, endless); u.Files != 3*depth {
			t.Errorf("%d files, not %d", u.Files, 3*depth)
		}
	})
}

// The count ends at the limit, whichever is reached first.
func TestUsageStops(t *testing.T) {
	const each, n = 64 << 10, 3000
	d, p := newAgent(t)
	for i := range n {
		path := fmt.Sprintf("%s/%d/f", p.Tmp, i/100)
		if i%100 == 0 {
			check(t, os.Mkdir(filepath.Dir(path), 0o700))
		}
		path += fmt.Sprint(i)
		if i < 100 {
			write(t, path, strings.Repeat("x", each))
		} else {
			check(t, os.Link(fmt.Sprintf("%s/0/f%d", p.Tmp, i%100), path))
		}
	}
	if u := usage(t, d, endless); u.Files != n+n/100 { // the control
		t.Fatalf("%d files, not %d", u.Files, n+n/100)
	}
	if u := usage(t, d, artifacts.Usage{Bytes: math.MaxInt64, Files: 1000}); u.Files != 1001 {
		t.Errorf("it counted %d files with a limit of 1000", u.Files)
	}
	const most = 10 * each
	if u := usage(t, d, artifacts.Usage{Bytes: most, Files: math.MaxInt64}); u.Bytes <= most || u.Bytes > most+2*each {
		t.Errorf("it counted %d bytes with a limit of %d", u.Bytes, most)
	}
}

// An agent cannot hide anything by closing a directory to its owner, be it one at the
// top, one that can be listed only, or one in another that is closed. Rights of others
// stay as they are, and what is open is left alone.
func TestUsageClosed(t *testing.T) {
	for _, tc := range []struct {
		name   string
		closed []string // below tmp, the deepest first
		mode   os.FileMode
	}{
		{"the control: none", nil, 0},
		{"one", []string{"a"}, 0},
		{"not listed", []string{"a"}, 0o311},
		{"not searched", []string{"a"}, 0o644},
		{"nested", []string{"a/b", "a"}, 0},
		{"the whole chain", []string{"a/b/c", "a/b", "a", "."}, 0},
		{"the top", []string{"."}, 0o070},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, root := newStore(t)
			check(t, s.Create(id, []byte("{}\n")))
			p := s.Paths(id)
			write(t, p.Tmp+"/a/b/c/large", strings.Repeat("x", 1<<20))
			write(t, p.Tmp+"/open/f", "x")
			asOwner(t, root, func() {
				d, err := s.Agent(id)
				check(t, err)
				defer d.Close()
				open := mode(t, p.Tmp+"/open")
				for _, name := range tc.closed {
					check(t, os.Chmod(filepath.Join(p.Tmp, name), tc.mode))
				}
				if u := usage(t, d, endless); u.Files != 6 || u.Bytes < 1<<20 {
					t.Errorf("%+v, not 6 files and a megabyte", u)
				}
				if now := mode(t, p.Tmp+"/open"); now != open {
					t.Errorf("what was open has mode %o, not %o", now, open)
				}
				if len(tc.closed) > 0 {
					if now, want := mode(t, filepath.Join(p.Tmp, tc.closed[0])), tc.mode|0o700; now != want {
						t.Errorf("what was closed has mode %o, not %o", now, want)
					}
				}
			})
		})
	}
}

// An agent that closes a directory again and again makes no count fail, and has nothing
// outside opened by links in its place.
func TestUsageClosedRace(t *testing.T) {
	s, root := newStore(t)
	check(t, s.Create(id, []byte("{}\n")))
	p := s.Paths(id)
	write(t, p.Tmp+"/a/f", "x")
	beside := p.Dir + "/beside"
	check(t, os.Mkdir(beside, 0o755))
	asOwner(t, root, func() {
		check(t, os.Chmod(beside, 0))
		var closing sync.WaitGroup
		stop := make(chan struct{})
		closing.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				check(t, os.Chmod(p.Tmp+"/a", 0))
				check(t, os.Rename(p.Tmp+"/a", p.Tmp+"/b"))
				check(t, os.Symlink(beside, p.Tmp+"/a"))
				check(t, os.Remove(p.Tmp+"/a"))
				check(t, os.Rename(p.Tmp+"/b", p.Tmp+"/a"))
			}
		})
		d, err := s.Agent(id)
		check(t, err)
		defer d.Close()
		for range 200 {
			usage(t, d, endless)
		}
		close(stop)
		closing.Wait()
		if u := usage(t, d, endless); u.Files != 2 {
			t.Errorf("at the end %+v, not 2 files", u)
		}
	})
	if now := mode(t, beside); now != 0 {
		t.Errorf("what lies beside has mode %o", now)
	}
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	check(t, err)
	return info.Mode().Perm()
}

// A count ends with its context, and one of a directory that is gone with an error.
func TestUsageEnds(t *testing.T) {
	s, _ := newStore(t)
	check(t, s.Create(id, []byte("{}\n")))
	d, err := s.Agent(id)
	check(t, err)
	defer d.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Usage(ctx, endless); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
	check(t, s.Trash(id))
	check(t, s.EmptyTrash())
	if _, err := d.Usage(t.Context(), endless); err == nil {
		t.Error("a directory that is gone was counted")
	}
}

// An agent that moves directories about during counts can lead them nowhere else: no
// count sees what lies beside the three directories.
func TestUsageRace(t *testing.T) {
	d, p := newAgent(t)
	const depth = 40
	deep(t, p.Tmp, depth)
	for n := range depth { // at every level something to come back for, that is beside them, too
		check(t, os.Mkdir(p.Tmp+strings.Repeat("/d", n)+"/x", 0o700))
	}
	for n := range 1000 {
		write(t, fmt.Sprintf("%s/x/%d", p.Dir, n), "")
	}
	at := p.Tmp + strings.Repeat("/d", depth/2)
	var moving sync.WaitGroup
	stop := make(chan struct{})
	moving.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			check(t, os.Rename(at, p.Home+"/moved"))
			check(t, os.Symlink(p.Dir, at))
			check(t, os.Remove(at))
			check(t, os.Rename(p.Home+"/moved", at))
		}
	})
	for range 100 {
		if u := usage(t, d, endless); u.Files > 4*depth+4 {
			t.Errorf("%+v was counted", u)
		}
	}
	close(stop)
	moving.Wait()
	if u := usage(t, d, endless); u.Files != 2*depth+1 {
		t.Errorf("at the end %+v, not %d files", u, 2*depth+1)
	}
}

func BenchmarkUsage(b *testing.B) {
	d, p := newAgent(b)
	for i := range 20_000 {
		if i%200 == 0 {
			check(b, os.MkdirAll(fmt.Sprintf("%s/%d", p.Tmp, i/200), 0o700))
		}
		check(b, os.WriteFile(fmt.Sprintf("%s/%d/%d", p.Tmp, i/200, i), nil, 0o600))
	}
	for b.Loop() {
		usage(b, d, endless)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/20_100, "ns/file")
}
