package seccomp_test

import (
	"io/fs"
	"net"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"pi-mcp/cage/seccomp"
)

// TestKernel has the kernel decide about every call of the table that is refused. Their
// arguments are no good, so that nothing would come of one that got through.
func TestKernel(t *testing.T) {
	known := here(t)
	var do task
	var rows []row
	for _, r := range slices.Concat(byNumber(), byArgument(), byMode()) {
		if number, ok := known[r.name]; ok && r.want != allow {
			rows = append(rows, r)
			do.Raw = append(do.Raw, issue{number, r.args})
		}
	}
	do.Dir = t.TempDir()
	for i, got := range ask(t, marked(t), do).Raw {
		want := unix.ENOANO
		if rows[i].want == enosys {
			want = unix.ENOSYS
		}
		if got != want {
			t.Errorf("%s%#x: %v", rows[i].name, rows[i].args, got)
		}
	}
}

// TestTrials does harmful things, and harmless ones beside them, with and without the
// filter. What an option allows must go as it does without.
func TestTrials(t *testing.T) {
	free := attempt(t, nil)
	strict := attempt(t, &seccomp.Options{})
	sockets := attempt(t, &seccomp.Options{Unix: true})
	debug := attempt(t, &seccomp.Options{Debug: true})
	for _, trial := range trials() {
		was, ok := free[trial.name]
		if !ok {
			continue // not on this architecture
		}
		if trial.want == 0 && was != 0 || trial.want != 0 && was == trial.want {
			t.Errorf("%s: %v without a filter", trial.name, was)
		}
		for _, c := range []struct {
			name    string
			allowed bool
			got     unix.Errno
		}{
			{"the strict filter", false, strict[trial.name]},
			{"Unix", trial.unix, sockets[trial.name]},
			{"Debug", trial.debug, debug[trial.name]},
		} {
			want := trial.want
			if c.allowed {
				want = was
			}
			if c.got != want {
				t.Errorf("%s under %s: %v, want %v", trial.name, c.name, c.got, want)
			}
		}
	}
}

// attempt has the probe try everything in a directory of its own, and afterwards looks
// at what it has made there.
func attempt(t *testing.T, o *seccomp.Options) map[string]unix.Errno {
	t.Helper()
	do := task{Dir: t.TempDir()}
	do.Socket = filepath.Join(t.TempDir(), "s")
	receiver, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: do.Socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer receiver.Close()
	if o == nil {
		got := ask(t, nil, do).Trials
		if setIDs(t, do.Dir) == 0 {
			t.Error("no file is set-uid even without a filter")
		}
		return got
	}
	got := ask(t, file(t, *o), do).Trials
	if n := setIDs(t, do.Dir); n != 0 {
		t.Errorf("%d files are set-uid or set-gid", n)
	}
	return got
}

// setIDs counts the files in dir, and dir, that have one of the bits.
func setIDs(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}
