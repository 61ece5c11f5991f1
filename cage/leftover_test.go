package cage_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/cage"
)

// snapshot returns all that is below the directories: each path's mode and content.
func snapshot(t testing.TB, dirs ...string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			all[path] = info.Mode().String()
			if info.Mode().IsRegular() && info.Mode().Perm() != 0 {
				text, err := os.ReadFile(path)
				all[path] += fmt.Sprintf(" %d %.40q", len(text), text)
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestFailedStartLeavesNothing: wherever a start fails, the granted directory and the
// state are what they were.
func TestFailedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	bwrap := tool(t, "bwrap")
	real := `exec ` + bwrap + ` "$@"`
	for name, test := range map[string]struct {
		script, undo string // in the tree; the first is bubblewrap
		argv         []string
		change       func(*cage.Spec)
		says         string // "" for the control
	}{
		"nothing fails":            {script: real},
		"bubblewrap fails":         {script: `echo 'bwrap: pivot_root: Operation not permitted' >&2; exit 1`, says: "seccomp=unconfined"},
		"bubblewrap is killed":     {script: `kill -KILL $$`, says: "no reason"},
		"bubblewrap reads nothing": {script: `exec 3<&-; exec sleep 0`, says: "no reason"},
		"the plan is refused": {script: real, says: "cannot mount", change: func(s *cage.Spec) {
			s.Binds = []cage.Bind{{Source: "/usr/share", Target: "/u", Write: true}, {Source: "/usr/lib", Target: "/u/x"}}
		}},
		"a path is not to be mounted": {script: real, says: "/usr/none", change: func(s *cage.Spec) {
			s.Binds = []cage.Bind{{Source: "/usr/none", Target: "/u"}}
		}},
		"a mount is not what it should be": {
			script: `mv w old; mkdir -p w/d/no; ` + real, undo: `rm -r w; mv old w`, says: "cannot trust the mount"},
		"no such program":           {script: real, argv: []string{"/none"}, says: "not in the cage"},
		"no such working directory": {script: real, change: func(s *cage.Spec) { s.Dir = "/none" }, says: "working directory"},
		"a port that is no port":    {script: real, change: func(s *cage.Spec) { s.Listen = []string{"127.0.0.1:99999"} }, says: "cannot listen"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, state := tree(t, "w/f", "w/d/no/f"), t.TempDir()
			path := stub(t, help(t, "--bind-fd", "--ro-bind-fd"), "cd "+root+"\n"+test.script)
			b, err := cage.Open(cage.Config{Bwrap: path, Init: initProgram, StateDir: state})
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			before := snapshot(t, root, state)
			spec := cage.Spec{Grants: resolve(t, cage.Grants{Write: []string{root + "/w"}, Denied: []string{root + "/w/d/no"}})}
			if test.change != nil {
				test.change(&spec)
			}
			if test.argv == nil {
				test.argv = []string{"/bin/true"}
			}
			_, err = b.Run(t.Context(), spec, test.argv, cage.Limits{})
			if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %v, want %q", err, test.says)
			}
			if test.undo != "" {
				undo := exec.Command("/bin/sh", "-c", test.undo)
				undo.Dir = root
				if out, err := undo.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			if diff := cmp.Diff(before, snapshot(t, root, state)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// waiting is a bubblewrap that says that it was started and does no more until it may.
func waiting(t *testing.T, dir string) string {
	return stub(t, help(t), fmt.Sprintf(`touch %[1]s/began; until [ -e %[1]s/go ]; do sleep 0.01; done; exec %[2]s "$@"`, dir, tool(t, "bwrap")))
}

// TestServersWait: starts of two servers that could disturb each other wait for each
// other, others do not, and a server that is killed is not waited for.
func TestServersWait(t *testing.T) {
	t.Parallel()
	state, signs, root := t.TempDir(), t.TempDir(), tree(t, "w/no/f", "x/no/f")
	second, err := cage.Open(cage.Config{Init: initProgram, StateDir: state})
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	run := func(ctx context.Context, dir string) error {
		g := resolve(t, cage.Grants{Write: []string{root + dir}, Denied: []string{root + dir + "/no"}})
		_, err := second.Run(ctx, cage.Spec{Grants: g}, []string{"/bin/true"}, cage.Limits{})
		return err
	}
	first := exec.Command(os.Args[0], "/bin/sleep", marker(33))
	first.Env = append(os.Environ(), serverVar+"="+state, initVar+"="+initProgram, bwrapVar+"="+waiting(t, signs), writeVar+"="+root+"/w")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, signs+"/began")
	if err := run(t.Context(), "/x"); err != nil {
		t.Errorf("elsewhere: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ended, "/w"); err == nil || !strings.Contains(err.Error(), "wait until another cage is made") {
		t.Errorf("it does not wait: %v", err)
	}
	waits := make(chan error)
	go func() { waits <- run(t.Context(), "/w") }()
	first.Process.Kill()
	first.Wait()
	if err := <-waits; err != nil {
		t.Errorf("after the other's death: %v", err)
	}
	if left, _ := filepath.Glob(state + "/starts/*.start"); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// until waits for a file.
func until(t *testing.T, path string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s does not appear", path)
		}
	}
}
