package cage_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"pi-mcp/cage"
)

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// under puts root before every path that does not start with a slash.
func under(root string, g cage.Grants) cage.Grants {
	for _, list := range []*[]string{&g.Write, &g.Read, &g.Denied} {
		var abs []string
		for _, path := range *list {
			if !filepath.IsAbs(path) {
				path = root + "/" + path
			}
			abs = append(abs, path)
		}
		*list = abs
	}
	return g
}

func TestResolve(t *testing.T) {
	root := tree(t, "a/b/c/f", "a/bc/f", "z/f", "a/.vscode/f", "a/.git/config")
	link(t, "a/b", root+"/l")
	link(t, "l", root+"/ll")
	link(t, root+"/z/f", root+"/a/outside")
	for _, test := range []struct {
		name      string
		give, get cage.Grants
	}{
		{name: "nothing"},
		{name: "slashes", give: cage.Grants{Write: []string{"a//b/", "z/."}}, get: cage.Grants{Write: []string{"z", "a/b"}}},
		{name: "symlinks", give: cage.Grants{Read: []string{"ll/c"}}, get: cage.Grants{Read: []string{"a/b/c"}}},
		{name: "read beats write", give: cage.Grants{Write: []string{"a"}, Read: []string{"a"}}, get: cage.Grants{Read: []string{"a"}}},
		{name: "denied beats both", give: cage.Grants{Write: []string{"a"}, Read: []string{"a"}, Denied: []string{"a"}},
			get: cage.Grants{Denied: []string{"a"}}},
		{name: "same place by two names", give: cage.Grants{Write: []string{"a/b"}, Read: []string{"l"}}, get: cage.Grants{Read: []string{"a/b"}}},
		{name: "parents first", give: cage.Grants{Read: []string{"a/b/c/f", "z", "a/bc"}}, get: cage.Grants{Read: []string{"z", "a/bc", "a/b/c/f"}}},
		{name: "nothing new", give: cage.Grants{Write: []string{"a", "a/b"}, Denied: []string{"a/bc", "a/bc/f"}},
			get: cage.Grants{Write: []string{"a"}, Denied: []string{"a/bc"}}},
		{name: "back to write", give: cage.Grants{Write: []string{"a", "a/b/c"}, Read: []string{"a/b"}},
			get: cage.Grants{Write: []string{"a", "a/b/c"}, Read: []string{"a/b"}}},
		{name: "a sibling with a longer name", give: cage.Grants{Write: []string{"a/bc"}, Denied: []string{"a/b"}},
			get: cage.Grants{Write: []string{"a/bc"}, Denied: []string{"a/b"}}},
		{name: "F26 denied symlink out of the grant", give: cage.Grants{Write: []string{"a"}, Denied: []string{"a/outside"}},
			get: cage.Grants{Write: []string{"a"}, Denied: []string{"z/f"}}},
		{name: "denied, missing, shown by nothing", give: cage.Grants{Write: []string{"a"}, Denied: []string{"z/none", "/none/at/all"}},
			get: cage.Grants{Write: []string{"a"}}},
		{name: "an automatic path by name", give: cage.Grants{Write: []string{"a", "a/.vscode", "a/.git/config"}},
			get: cage.Grants{Write: []string{"a", "a/.vscode", "a/.git/config"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := under(root, test.give).Resolve(cage.Policy{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(under(root, test.get), got); diff != "" {
				t.Error(diff)
			}
			again, err := got.Resolve(cage.Policy{})
			if err != nil || !cmp.Equal(got, again) {
				t.Errorf("resolved again: %v, %v", again, err)
			}
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	root := tree(t, "a/b/f", "home/project/", "state/db", "pi/cli")
	link(t, "nowhere", root+"/a/dangling")
	link(t, "loop", root+"/loop")
	listener, err := net.Listen("unix", root+"/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := unix.Mkfifo(root+"/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	policy := cage.Policy{Forbidden: []string{root + "/state"}, Programs: []string{root + "/pi"}, Home: root + "/home"}
	w := func(paths ...string) cage.Grants { return cage.Grants{Write: paths} }
	r := func(paths ...string) cage.Grants { return cage.Grants{Read: paths} }
	d := func(path string) cage.Grants { return cage.Grants{Write: []string{"a"}, Denied: []string{path}} }
	for _, test := range []struct {
		grants         cage.Grants
		arg, path, why string
	}{
		{w("/"), "write", "/", "contains /"},
		{r("/"), "read", "/", "contains /"},
		{w("/proc"), "write", "/proc", "cannot be granted"},
		{r("/proc/self"), "read", "/proc/self", "cannot be granted"},
		{r("/sys/kernel"), "read", "/sys/kernel", "cannot be granted"},
		{w("/dev"), "write", "/dev", "cannot be granted"},
		{r("/dev/null"), "read", "/dev/null", "cannot be granted"},
		{r("/run"), "read", "/run", "cannot be granted"},
		{r("/var/run"), "read", "/var/run", "cannot be granted"},
		{w("/etc"), "write", "/etc", "cannot be granted"},
		{w("/etc/hosts"), "write", "/etc/hosts", "for writing"},
		{r("/etc"), "read", "/etc", "as a whole"},
		{r("/etc/ssl"), "read", "/etc/ssl", "single files"},
		{w("/usr/local"), "write", "/usr/local", "for writing"},
		{w("/bin"), "write", "/bin", "for writing"},
		{w("/tmp"), "write", "/tmp", "as a whole"},
		{r("/tmp/"), "read", "/tmp/", "as a whole"},
		{r("/var"), "read", "/var", "contains /var/"},
		{r("/home"), "read", "/home", "as a whole"},
		{w("/root"), "write", "/root", "as a whole"},
		{w("home"), "write", "home", "as a whole"},
		{r("home"), "read", "home", "as a whole"},
		{w("state"), "write", "state", "cannot be granted"},
		{w("state/db"), "write", "state/db", "cannot be granted"},
		{r("state/db"), "read", "state/db", "cannot be granted"},
		{w("."), "write", ".", "contains"},
		{w("pi"), "write", "pi", "cannot be granted"},
		{w("pi/cli"), "write", "pi/cli", "cannot be granted"},
		{w("socket"), "write", "socket", "socket"},
		{r("fifo"), "read", "fifo", "named pipe"},
		{w("none"), "write", "none", "does not exist"},
		{r("a/b/f/g"), "read", "a/b/f/g", "cannot be reached"},
		{r("loop"), "read", "loop", "cannot be reached"},
		{r("a/../a"), "read", "a/../a", "contains .."},
		{r("a\x00b"), "read", "a\x00b", "NUL"},
		{r(strings.Repeat("x", 5000)), "read", strings.Repeat("x", 5000), "longer"},
		{d("a/none"), "denied", "a/none", "does not exist inside the grant"},
		{d("a/none/deeper"), "denied", "a/none/deeper", "does not exist inside the grant"},
		{d("a/dangling"), "denied", "a/dangling", "symlink to nothing"},
		{d("/usr"), "denied", "/usr", "every cage needs"},
		{d("/"), "denied", "/", "every cage needs"},
		{cage.Grants{Write: []string{"a/b"}, Denied: []string{"a"}}, "write", "a/b", "inside the denied path"},
		{cage.Grants{Read: []string{"a/b/f"}, Denied: []string{"a"}}, "read", "a/b/f", "inside the denied path"},
	} {
		t.Run(test.arg+" "+test.path[:min(len(test.path), 40)], func(t *testing.T) {
			_, err := under(root, test.grants).Resolve(policy)
			var refused *cage.GrantError
			if !errors.As(err, &refused) {
				t.Fatalf("error %v, want a GrantError", err)
			}
			path := under(root, r(test.path)).Read[0]
			if refused.Arg != test.arg || refused.Path != path || !strings.Contains(refused.Reason, test.why) {
				t.Errorf("got %v, want %s %s: %s", err, test.arg, path, test.why)
			}
		})
	}
	for _, path := range []string{"", "relative", "./a"} {
		if _, err := w(path).Resolve(policy); err == nil {
			t.Errorf("%q was accepted", path)
		}
	}
	for _, control := range []cage.Grants{w("home/project", "a"), r("pi")} {
		if _, err := under(root, control).Resolve(policy); err != nil {
			t.Errorf("control: %v", err)
		}
	}
}

func TestUnder(t *testing.T) {
	root := tree(t, "w/in/f", "r/f", "other/f")
	g := under(root, cage.Grants{Write: []string{"w"}, Read: []string{"w/in", "r/f"}, Denied: []string{"w/in/f", "other"}})
	dirs, files, err := g.Under(filepath.Dir(root))
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Base(root)
	if diff := cmp.Diff([]string{base + "/w"}, dirs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{base + "/r/f"}, files); diff != "" {
		t.Error(diff)
	}
	if dirs, files, _ := g.Under(root + "/w"); len(files) != 0 || !cmp.Equal(dirs, []string{"in"}) {
		t.Errorf("below w: %v, %v", dirs, files)
	}
}
