package e2e

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestOutsideAsUser runs every test of the table once more, as an ordinary user: root
// may much, and the kernel counts root's processes less. Started by an ordinary user,
// the tests are that user's anyway.
func TestOutsideAsUser(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		return
	}
	tests := outsideTests()
	user := newOutsideUser(t, slices.Sorted(maps.Keys(tests)))
	for pkg, names := range tests {
		out := user.run(t, pkg, "^("+strings.Join(names, "|")+")$")
		for _, name := range names {
			if !bytes.Contains(out, []byte("--- PASS: "+name+" ")) {
				t.Errorf("%s.%s did not pass as uid %d:\n%s", pkg, name, ordinary, out)
			}
		}
		if n := bytes.Count(out, []byte("\n--- PASS: ")) + bytes.Count(out, []byte("\n--- FAIL: ")); n != len(names) {
			t.Errorf("%s: %d tests ran as uid %d, not %d:\n%s", pkg, n, ordinary, len(names), out)
		}
	}
}

// ordinary is the user that such tests run as.
const ordinary = 65534

// An outsideUser has in a directory all that its tests need: it may be unable to
// build them, and to read the source that they come from.
type outsideUser string

func newOutsideUser(t *testing.T, pkgs []string) outsideUser {
	t.Helper()
	dir, err := os.MkdirTemp("", "pi-mcp-user-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	u := outsideUser(dir)
	for name, program := range map[string]string{"pi-mcp": programs.piMCP, "fakepi": programs.fakePi, "probe": programs.probe} {
		link(t, program, u.path("programs", name))
	}
	args := []string{"test", "-c", "-o", u.path("tests") + "/"}
	for _, pkg := range pkgs {
		must(t, os.MkdirAll(u.path("src", sources[pkg]), 0o755))
		args = append(args, "./"+sources[pkg])
	}
	must(t, os.Mkdir(u.path("tests"), 0o755))
	for _, args := range [][]string{args, {"build", "-o", u.path("programs", "init"), "./cage/testdata/init"}} {
		build := exec.CommandContext(t.Context(), "go", args...)
		build.Dir, build.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("cannot build the tests: %v: %s", err, out)
		}
	}
	u.provide(t)
	for _, name := range []string{"home", "tmp"} {
		must(t, os.Mkdir(u.path(name), 0o700))
		must(t, os.Chown(u.path(name), ordinary, ordinary))
	}
	return u
}

func (u outsideUser) path(parts ...string) string {
	return filepath.Join(append([]string{string(u)}, parts...)...)
}

// provide puts the real pi where the tests look for it, and the source of package unix,
// from which some read the numbers of system calls. What the user can reach is not copied.
func (u outsideUser) provide(t *testing.T) {
	t.Helper()
	tools, err := filepath.EvalSymlinks("../.tools")
	must(t, err)
	tools, err = filepath.Abs(tools)
	must(t, err)
	if reachable(tools) {
		must(t, os.Symlink(tools, u.path("src", ".tools")))
	} else {
		must(t, os.CopyFS(u.path("src", ".tools"), os.DirFS(tools)))
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "golang.org/x/sys/unix")
	out, err := list.Output()
	must(t, err)
	for _, arch := range []string{"amd64", "arm64"} {
		name := "zsysnum_linux_" + arch + ".go"
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), name))
		must(t, err)
		write(t, u.path("unix", name), string(text))
	}
}

// reachable reports whether everybody may pass through a directory, which is absolute,
// and all above.
func reachable(dir string) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o005 != 0o005 {
			return false
		}
		if dir == "/" {
			return true
		}
		dir = filepath.Dir(dir)
	}
}

// run runs the tests of one package whose names match, and returns what they print.
func (u outsideUser) run(t *testing.T, pkg, names string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, u.path("tests", filepath.Base(sources[pkg])+".test"),
		"-test.v", "-test.run="+names, "-test.timeout="+patience.String())
	cmd.Dir = u.path("src", sources[pkg])
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + u.path("home"), "TMPDIR=" + u.path("tmp"), "CAGE_TEST_INIT=" + u.path("programs", "init"),
		"AGENT_TEST_PROGRAMS=" + u.path("programs"), programsVar + "=" + u.path("programs"), "SECCOMP_TEST_SOURCES=" + u.path("unix"),
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: ordinary, Gid: ordinary}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s as uid %d: %v", pkg, ordinary, err)
	}
	return out
}
