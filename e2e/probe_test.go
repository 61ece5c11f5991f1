package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateProbes = flag.Bool("update", false, "rewrite doc/probes.md")

// TestProbes lets e2e/probe loose in a cage as agents get it, as root and as an
// ordinary user, and where nothing stops it. Each probe must be blocked in a cage, but
// for those that the table admits, and must get through without one, or it
// would prove nothing. doc/probes.md is the result.
func TestProbes(t *testing.T) {
	t.Parallel()
	users := []int{os.Getuid()}
	if users[0] == 0 {
		users = append(users, ordinary)
	}
	var last probed
	for _, uid := range users {
		last = runProbes(t, uid)
		checkProbes(t, uid, last)
	}
	if t.Failed() {
		return
	}
	page := append(probesPage(last.Cage), outsidePage(outsides)...)
	if *updateProbes {
		must(t, os.WriteFile("../doc/probes.md", page, 0o644))
	}
	want, err := os.ReadFile("../doc/probes.md")
	must(t, err)
	if diff := cmp.Diff(string(want), string(page)); diff != "" {
		t.Errorf("doc/probes.md is not the result (-page +run), -update rewrites it:\n%s", diff)
	}
}

// checkProbes compares what one user's probes found with the table.
func checkProbes(t *testing.T, uid int, got probed) {
	t.Helper()
	if len(got.Cage) != len(got.Control) {
		t.Fatalf("uid %d: %d probes in the cage, %d outside", uid, len(got.Cage), len(got.Control))
	}
	for i, in := range got.Cage {
		out, row := got.Control[i], probeRow(in.Number)
		if want := row.caged(uid); in.Outcome != want {
			t.Errorf("uid %d, probe %d (%s) in the cage: %s, want %s: %s", uid, in.Number, in.Name, in.Outcome, want, in.Detail)
		}
		switch want := row.free(uid); {
		case out.Outcome == want:
		case row.machine != "" && out.Outcome != "failed":
			t.Logf("uid %d, probe %d (%s) is %s without a cage: it needs %s: %s", uid, in.Number, in.Name, out.Outcome, row.machine, out.Detail)
		default:
			t.Errorf("uid %d, probe %d (%s) without a cage: %s, want %s: %s", uid, in.Number, in.Name, out.Outcome, want, out.Detail)
		}
		if testing.Verbose() {
			t.Logf("uid %d, probe %d (%s): %s (%s), without a cage %s (%s)", uid, in.Number, in.Name, in.Outcome, in.Detail, out.Outcome, out.Detail)
		}
	}
}

// runProbes runs a server of probes as this user, in a directory that is the user's.
func runProbes(t *testing.T, uid int) probed {
	t.Helper()
	dir, err := os.MkdirTemp("", "pi-mcp-probes-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	self, err := os.Executable()
	must(t, err)
	text, err := os.ReadFile(self)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "server"), text, 0o755)) // the user's own, for probe 72
	for from, to := range map[string]string{programs.piMCP: "init", programs.probe: "probe"} {
		link(t, from, filepath.Join(dir, to))
	}
	layout(t, dir, uid)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	root, err := os.Open("/") // a server may be started with one
	must(t, err)
	defer root.Close()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "server"), "probes", dir)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir + "/home", decoyVar + "=decoy-" + filepath.Base(dir)}
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = dir, &stdout, &stderr, []*os.File{root}
	if uid != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	if err := cmd.Run(); err != nil {
		t.Fatalf("uid %d: %v: %s", uid, err, stderr.Bytes())
	}
	var got probed
	must(t, json.Unmarshal(stdout.Bytes(), &got))
	return got
}

// layout makes the files that the probes are after.
func layout(t *testing.T, dir string, uid int) {
	t.Helper()
	for _, name := range []string{
		"home/.ssh/id_rsa", "home/.pi/agent/auth.json", "state/agents/other/mcp.json", "state/pi-mcp.db",
		"write/f", "write/a/b/hidden/secret", "write/hidden", "write/.git/HEAD", "write/.git/hooks/pre-push", "write/.git/config",
		"read/f", "read/.ssh/id_rsa", "agent/session", "readmount/f", "mask/f",
	} {
		write(t, filepath.Join(dir, name), "secret\n")
	}
	for _, name := range []string{"state/cage", "write/mnt", "agent/tmp", "agent/home", "agent/pi"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil || path == dir || isProgram(path) {
			return err
		}
		return os.Lchown(path, uid, -1)
	}))
}

// isProgram tells the hard links of other tests' programs: they are not the user's.
func isProgram(path string) bool {
	switch filepath.Base(path) {
	case "init", "probe":
		return true
	}
	return false
}
