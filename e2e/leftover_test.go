package e2e

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// grants makes directories and returns the arguments of a run that is granted them,
// with rules inside of its own and automatic ones.
func (w *world) grants() obj {
	w.t.Helper()
	for _, name := range []string{"src/a.go", "src/secret/key", "src/.git/hooks/pre-commit", "src/.env", "docs/page"} {
		write(w.t, w.path("grants", name), name)
	}
	return obj{"write": []string{w.path("grants", "src")}, "read": []string{w.path("grants", "docs")}, "denied": []string{w.path("grants", "src", "secret")}}
}

// with is args and one more.
func with(args obj, name string, value any) obj {
	args = maps.Clone(args)
	args[name] = value
	return args
}

// settle runs an agent and removes it, so that everything is there that the first
// agent brings about.
func (w *world) settle(args obj) {
	w.t.Helper()
	must(w.t, os.MkdirAll(w.path("tmp"), 0o700))
	w.env = append(w.env, "TMPDIR="+w.path("tmp"))
	c := w.client()
	call[obj](c, "remove", obj{"agent_id": c.run(args).ID})
	c.close()
}

// snapshot returns each path of the world, but for the database and the programs of
// the test, with its mode, size and beginning.
func (w *world) snapshot() map[string]string {
	w.t.Helper()
	all := make(map[string]string)
	for _, dir := range []string{"agents", "state", "grants", "tmp", "home", "host-pi"} {
		err := filepath.WalkDir(w.path(dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || strings.HasPrefix(path, w.path("state", "db")) {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			all[path] = info.Mode().String()
			if info.Mode().IsRegular() && info.Mode().Perm() != 0 {
				text, err := os.ReadFile(path)
				all[path] += fmt.Sprintf(" %d %.80q", len(text), text)
				return err
			}
			return nil
		})
		must(w.t, err)
	}
	return all
}

// same fails the test when the world is not what it was.
func (w *world) same(after string, before map[string]string) {
	w.t.Helper()
	if diff := cmp.Diff(before, w.snapshot()); diff != "" {
		w.t.Errorf("after %s: %s", after, diff)
	}
}

// Wherever a start fails, agents, state, grants and temporary files are what they were.
func TestFailedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	grants := w.grants()
	w.settle(grants)
	w.script("ends", obj{"start": []obj{do("exit", 3)}})
	w.script("slow", obj{"start": []obj{do("wait_file", "/tmp/never")}})
	before := w.snapshot()
	for _, tc := range []struct {
		name string
		env  string
		args obj
		says string
	}{
		{name: "a bubblewrap that fails", env: "PI_MCP_BWRAP=" + w.stub("fails", bwrapHelp(t), "bwrap: setting up uid map: Permission denied"), says: "apparmor"},
		{name: "a bubblewrap that makes a weaker cage", env: "PI_MCP_BWRAP=" + w.weakBwrap("open", "--remount-ro", "/"), says: "cannot trust the mount at /"},
		{name: "a bubblewrap without a filter", env: "PI_MCP_BWRAP=" + w.weakBwrap("unfiltered", "--seccomp", "6"), says: "(--seccomp); install another one"},
		{name: "a bubblewrap that shares the network", env: "PI_MCP_BWRAP=" + w.weakBwrap("networked", "--unshare-net"), says: "net namespace (--unshare-net)"},
		{name: "a bubblewrap that shares the session", env: "PI_MCP_BWRAP=" + w.weakBwrap("led", "--new-session"), says: "(--new-session)"},
		{name: "a bubblewrap without a mount", env: "PI_MCP_BWRAP=" + w.weakBwrap("few", "--proc", "/proc"), says: "cannot make the cage"},
		{name: "a pi that ends", args: with(grants, "model", "ends"), says: "exit"},
		{name: "a pi that never answers", env: "PI_MCP_HANDSHAKE=1s", args: with(grants, "model", "slow"), says: "--handshake"},
		{name: "a grant that is none", args: with(grants, "read", []string{w.path("grants", "none")}), says: "does not exist"},
		{name: "no pi", env: "PI_MCP_PI=/none", says: "cannot find pi"},
	} {
		args := tc.args
		if args == nil {
			args = grants
		}
		c := w.client(tc.env)
		has(t, tc.name, c.refused("run", args), tc.says)
		c.none()
		c.close()
		w.quiet()
		w.same(tc.name, before)
	}
	c := w.client() // the control
	c.run(grants)
	if cmp.Equal(before, w.snapshot()) {
		t.Error("the control: an agent that runs leaves no trace either")
	}
}
