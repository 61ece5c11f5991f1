package e2e

import (
	"flag"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateProbes = flag.Bool("update", false, "rewrite doc/probes.md")

// TestProbes lets e2e/probe loose in the cage of an agent, as root and as an ordinary
// user, and where nothing stops it. Each probe must be blocked in a cage, but for those
// that the table admits, and must get through without one, or it would prove nothing.
// doc/probes.md is the result.
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

// probed is what one user's probes found, each time in the same order.
type probed struct{ Cage, Shared, Control []report }

// checkProbes compares what one user's probes found with the table.
func checkProbes(t *testing.T, uid int, got probed) {
	t.Helper()
	if len(got.Cage) != len(got.Control) || len(got.Shared) != len(got.Control) {
		t.Fatalf("uid %d: %d probes in the cage, %d in the host's network, %d outside", uid, len(got.Cage), len(got.Shared), len(got.Control))
	}
	for i, in := range got.Cage {
		out, shared, row := got.Control[i], got.Shared[i], probeRow(in.Number)
		if want := row.caged(uid); in.Outcome != want {
			t.Errorf("uid %d, probe %d (%s) in the cage: %s, want %s: %s", uid, in.Number, in.Name, in.Outcome, want, in.Detail)
		}
		if want := row.shared(uid, out); shared.Outcome != want {
			t.Errorf("uid %d, probe %d (%s) in the host's network: %s, want %s: %s", uid, in.Number, in.Name, shared.Outcome, want, shared.Detail)
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

// runProbes runs the probe in the cages of two agents of one server, and without a cage,
// all as this user and in a directory that is the user's.
func runProbes(t *testing.T, uid int) (got probed) {
	t.Helper()
	w := probeWorld(t, uid)
	host := w.host()
	c := w.client()
	// It would be odd to the server when it starts, and this is another agent's.
	write(t, w.path("state", "agents", "other", "mcp.json"), "secret\n")
	for _, path := range []string{w.path("state", "agents", "other"), w.path("state", "agents", "other", "mcp.json")} {
		must(t, os.Chown(path, uid, -1))
	}
	got.Cage = c.probeCaged(host.world, "internet")
	got.Shared = c.probeCaged(host.world, "host")
	c.close()
	got.Control = host.control()
	return got
}

// probeWorld is a world of this user's, with what the probes are after.
func probeWorld(t *testing.T, uid int) *world {
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
	for from, to := range map[string]string{programs.piMCP: "pi-mcp", programs.fakePi: "pi/pi", programs.probe: "bin/probe"} {
		link(t, from, filepath.Join(dir, to))
	}
	layout(t, dir, uid)
	root, err := os.Open("/") // a server may be started with one
	must(t, err)
	t.Cleanup(func() { root.Close() })
	w := &world{
		t: t, dir: dir, files: []*os.File{root},
		env: []string{
			"PATH=" + os.Getenv("PATH"), "HOME=" + dir + "/home", "TMPDIR=" + dir + "/home", decoyVar + "=decoy-" + filepath.Base(dir),
			"PI_CODING_AGENT_DIR=" + dir + "/host-pi", "PI_MCP_DB=" + dir + "/state/pi-mcp.db", "PI_MCP_AGENTS_DIR=" + dir + "/state/agents",
			"PI_MCP_PI=" + dir + "/pi/pi", "PI_MCP_PROVIDER=fake", "PI_MCP_MODEL=plain", "PI_MCP_REFRESH_PAUSE=100ms",
		},
	}
	if uid != os.Getuid() {
		w.user = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	t.Cleanup(w.sweep)
	t.Cleanup(w.quiet)
	return w
}

// layout makes the files that the probes are after.
func layout(t *testing.T, dir string, uid int) {
	t.Helper()
	for _, name := range []string{
		"home/.ssh/id_rsa", "home/.pi/agent/auth.json",
		"write/f", "write/a/b/hidden/secret", "write/hidden", "write/.git/HEAD", "write/.git/hooks/pre-push", "write/.git/config",
		"read/f", "read/.ssh/id_rsa", "agent/session", "readmount/f", "mask/f",
	} {
		write(t, filepath.Join(dir, name), "secret\n")
	}
	for _, name := range []string{"state", "host-pi", "write/mnt"} {
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
	case "pi-mcp", "pi", "probe":
		info, err := os.Lstat(path)
		return err == nil && info.Mode().IsRegular()
	}
	return false
}
