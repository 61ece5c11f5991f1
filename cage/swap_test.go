package cage_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"pi-mcp/cage"
)

// TestSwapRace: while somebody exchanges a granted directory with a symlink to a secret
// one as fast as they can, a cage has the directory or is not made. A bubblewrap
// that is told the path mounts the secret.
func TestSwapRace(t *testing.T) {
	t.Parallel()
	b, root := open(t), tree(t, "p/f", "secret/f")
	link(t, "secret", root+"/l")
	spec := cage.Spec{Grants: resolve(t, cage.Grants{Read: []string{root + "/p"}})}
	swap := func() error { return unix.Renameat2(-1, root+"/p", -1, root+"/l", unix.RENAME_EXCHANGE) }
	stop, stopped := make(chan struct{}), sync.WaitGroup{}
	stopped.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := swap(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	made, refused := 0, 0
	for n := 0; n < 120 || made == 0 || refused == 0; n++ {
		r, err := b.Run(t.Context(), spec, []string{"/bin/cat", root + "/p/f"}, cage.Limits{})
		switch {
		case err != nil:
			refused++
		case string(r.Stdout) == "p/f":
			made++
		default:
			t.Errorf("start %d shows %q: %s", n, r.Stdout, r.Stderr)
		}
	}
	close(stop)
	stopped.Wait()
	t.Logf("%d cages were made, %d refused", made, refused)
	if _, err := os.Readlink(root + "/p"); err != nil { // it is the directory now
		if err := swap(); err != nil {
			t.Fatal(err)
		}
	}
	control := exec.Command(tool(t, "bwrap"), "--ro-bind", "/", "/", "--tmpfs", "/mnt", "--ro-bind", root+"/p", "/mnt/p", "/bin/cat", "/mnt/p/f")
	if out, err := control.CombinedOutput(); err != nil || string(out) != "secret/f" {
		t.Errorf("control: %v: %s", err, out)
	}
}

// TestOldroot: a symlink on the way to a rule inside a write grant, planted by an agent
// between two starts, leads bubblewrap nowhere: it is not started, and nothing outside the
// grant is made or changed.
func TestOldroot(t *testing.T) {
	t.Parallel()
	b, root := open(t), tree(t, "w/d/e/no/f", "home/.ssh/id", "home/.ssh/e/no/f")
	asked := under(root, cage.Grants{Write: []string{"w"}, Denied: []string{"w/d/e/no"}})
	spec := cage.Spec{Grants: resolve(t, asked)}
	if got := output(t, b, spec, "cat "+root+"/w/d/e/no/f 2>/dev/null || echo masked"); got != "masked" { // control
		t.Fatal(got)
	}
	for _, to := range []string{"/oldroot" + root + "/home/.ssh", "/newroot" + root + "/home/.ssh", root + "/home/.ssh", "../home/.ssh"} {
		if err := os.RemoveAll(root + "/w/d"); err != nil {
			t.Fatal(err)
		}
		link(t, to, root+"/w/d")
		before := listing(t, root+"/home")
		_, err := b.Run(t.Context(), spec, []string{"/bin/true"}, cage.Limits{})
		if err == nil || !strings.Contains(err.Error(), "a symlink has appeared") {
			t.Errorf("%s: error %v", to, err)
		}
		if again, err := asked.Resolve(cage.Policy{}); err == nil { // it leads somewhere, and that is closed
			shell(t, b, cage.Spec{Grants: again}, "true")
		}
		if after := listing(t, root+"/home"); !slices.Equal(before, after) {
			t.Errorf("%s: %q became %q", to, before, after)
		}
	}
}

// listing returns every path in a directory with its mode.
func listing(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			all = append(all, info.Mode().String()+" "+path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
