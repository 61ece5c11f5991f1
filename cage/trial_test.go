package cage_test

import (
	"os"
	"strings"
	"testing"

	"pi-mcp/cage"
)

// withStub opens a stub of bubblewrap.
func withStub(t *testing.T, script string) *cage.Bwrap {
	t.Helper()
	b, err := cage.Open(cage.Config{Bwrap: stub(t, help(t), script), Init: initProgram, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// TestSteps: here every step works. One that fails is the last, and says why and what
// to do.
func TestSteps(t *testing.T) {
	t.Parallel()
	good := open(t).Steps(t.Context())
	for _, s := range good {
		if s.Err != nil {
			t.Errorf("%s: %v", s.Name, s.Err)
		}
	}
	for option, says := range map[string]string{
		"--unshare-user": "setting up uid map: Permission denied",
		"--unshare-net":  "loopback: Failed RTM_NEWADDR: Operation not permitted",
		"--proc":         "Can't mount proc on /newroot/proc: Operation not permitted",
		"--dev":          "Can't bind mount /oldroot/dev/null on /newroot/dev/null: No such file or directory",
	} {
		script := `for a; do if [ "$a" = ` + option + ` ]; then echo "bwrap: ` + says + `" >&2; exit 1; fi; done; exec ` + tool(t, "bwrap") + ` "$@"`
		all := withStub(t, script).Steps(t.Context())
		last := all[len(all)-1]
		if last.Err == nil || !strings.Contains(last.Err.Error(), says) || !strings.Contains(last.Err.Error(), cage.Explain("bwrap: "+says)) {
			t.Errorf("%s: %s: %v", option, last.Name, last.Err)
		}
		for n, s := range all[:len(all)-1] {
			if s.Err != nil || s.Name != good[n].Name {
				t.Errorf("%s: before it %s: %v", option, s.Name, s.Err)
			}
		}
	}
}

// TestFollowsSymlinks: what a bubblewrap does is seen, and nothing of the trial stays.
func TestFollowsSymlinks(t *testing.T) {
	t.Parallel()
	real := tool(t, "bwrap")
	// What a bubblewrap does that follows the link, and one that does not. Both leave
	// alone what has no link on the way.
	const link = `for a; do last=$into; into=$a; [ "$last" = --bind ] && from=$a; [ "$last" = --dir ] && made=$a; done; `
	for _, test := range []struct {
		name, script string
		follows      bool
	}{
		{"follows", link + `case $made in */link/*) mkdir "${from%/*}/outside/made";; *) exec ` + real + ` "$@";; esac`, true},
		{"refuses", link + `case $made in */link/*) echo "bwrap: symlink" >&2; exit 1;; *) exec ` + real + ` "$@";; esac`, false},
	} {
		dir := t.TempDir()
		follows, err := withStub(t, test.script).FollowsSymlinks(t.Context(), dir)
		if err != nil || follows != test.follows {
			t.Errorf("%s: %v, %v", test.name, follows, err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: %v is left", test.name, left)
		}
	}
	if _, err := withStub(t, "exit 1").FollowsSymlinks(t.Context(), t.TempDir()); err == nil {
		t.Error("a trial that never worked is no trial")
	}
	b := open(t)
	follows, err := b.FollowsSymlinks(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("bubblewrap %s follows symlinks: %v", b.Version(t.Context()), follows)
}

// TestVersion: it is what --version says, and empty if that fails.
func TestVersion(t *testing.T) {
	t.Parallel()
	if v := open(t).Version(t.Context()); !strings.Contains(v, ".") {
		t.Errorf("the real one says %q", v)
	}
	if v := withStub(t, "exit 1").Version(t.Context()); v != "" {
		t.Errorf("one that does not know says %q", v)
	}
}
