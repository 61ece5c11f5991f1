package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// program makes one that only knows its version.
func program(t *testing.T, path, version string) string {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	write(t, path+".version", version)
	return link(t, self, path)
}

// noAgent expects run to fail with words that have all of parts, and to leave
// nothing behind; the server still does what needs no agent.
func (w *world) noAgent(t *testing.T, env []string, parts ...string) {
	t.Helper()
	c := w.client(env...)
	has(t, "run", c.refused("run", nil), append(parts, "cannot start the agent")...)
	c.none()
	w.untouched()
	if left := w.caged(); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
	c.close()
}

func TestNothingInstalled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	empty := w.path("empty")
	must(t, os.Mkdir(empty, 0o755))
	w.noAgent(t, []string{"PATH=" + empty, "PI_MCP_PI="}, "cannot find pi", empty, "npm install -g @earendil-works/pi-coding-agent", "PI_MCP_PI")
	w.noAgent(t, []string{"PATH=", "PI_MCP_PI="}, "cannot find pi", "npm install")
	w.noAgent(t, []string{"PATH=" + empty}, "cannot find bwrap", "PATH", empty, "apt install bubblewrap")
	w.noAgent(t, []string{"PI_MCP_PI=" + w.path("no-pi")}, w.path("no-pi"), "npm install")
	w.noAgent(t, []string{"PI_MCP_BWRAP=" + w.path("no-bwrap")}, w.path("no-bwrap"), "name an executable file")
	w.client().run(nil) // the control
}

func TestTooOld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := program(t, w.path("old", "pi"), "1.0.0")
	w.noAgent(t, []string{"PI_MCP_PI=" + old}, old, "1.0.0", "1.4.0", "npm install")

	// A pi for Node.js, as npm lays it out, with an old Node.js in PATH.
	pkg := w.path("npm", "lib", "node_modules", "@earendil-works", "pi-coding-agent")
	write(t, filepath.Join(pkg, "package.json"), `{"name":"@earendil-works/pi-coding-agent","version":"1.6.0"}`)
	entry := write(t, filepath.Join(pkg, "dist", "bundle", "cli.js"), "#!/usr/bin/env node\n")
	must(t, os.MkdirAll(w.path("npm", "bin"), 0o755))
	script := w.path("npm", "bin", "pi")
	must(t, os.Symlink(entry, script))
	node := program(t, w.path("node18", "node"), "v18.20.1")
	w.noAgent(t, []string{"PI_MCP_PI=" + script, "PATH=" + filepath.Dir(node)}, node, "18.20.1", "22.19", "PI_MCP_NODE")
	w.noAgent(t, []string{"PI_MCP_PI=" + script, "PI_MCP_NODE=" + node}, node, "18.20.1", "22.19")
	w.noAgent(t, []string{"PI_MCP_PI=" + script, "PATH=" + w.path("npm")}, "22.19", w.path("npm"), "PI_MCP_NODE")
	write(t, filepath.Join(pkg, "package.json"), `{"name":"@earendil-works/pi-coding-agent","version":"1.0.0"}`)
	new := program(t, w.path("node24", "node"), "v24.1.0")
	w.noAgent(t, []string{"PI_MCP_PI=" + script, "PI_MCP_NODE=" + new}, "1.0.0", "1.4.0", "npm install")
}

// stub makes a bubblewrap that knows the options of help and fails with words.
func (w *world) stub(name, help, words string) string {
	w.t.Helper()
	options := write(w.t, w.path("stubs", name+".help"), help)
	says := write(w.t, w.path("stubs", name+".says"), words+"\n")
	return write(w.t, w.path("stubs", name), fmt.Sprintf(
		"#!/bin/sh\nif [ \"$1\" = --help ]; then cat '%s'; exit 0; fi\ncat '%s' >&2\nexit 1\n", options, says))
}

// bwrapHelp is what the installed bubblewrap says about its options.
func bwrapHelp(t testing.TB) string {
	t.Helper()
	help, err := exec.Command("bwrap", "--help").CombinedOutput()
	must(t, err)
	return string(help)
}

// startFailures are what bubblewraps in the field say, and words of the remedy.
var startFailures = [...]struct{ words, remedy string }{
	{"No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces", "seccomp=unconfined"},
	{"Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)", "user.max_user_namespaces"},
	{"Creating new namespace failed: Resource temporarily unavailable", "ulimit -u"},
	{"setting up uid map: Permission denied", "/etc/apparmor.d/bwrap"},
	{"loopback: Failed RTM_NEWADDR: Operation not permitted", "NET_ADMIN"},
	{"Failed to make / slave: Permission denied", "apparmor=unconfined"},
	{"pivot_root: Operation not permitted", "seccomp=unconfined"},
	{"Can't mount proc on /newroot/proc: Operation not permitted", "systempaths=unconfined"},
	{"Can't bind mount /oldroot/dev/null on /newroot/dev/null: No such file or directory", "/dev"},
	{"execvp node: No such file or directory", "ldd"},
	{"something that nobody has heard of", ""},
}

// What bubblewrap says when it cannot make a cage comes with the remedy, and pi is
// not run without a cage.
func TestF22Bubblewrap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.script("marks", obj{"start": []obj{do("touch", w.path("ran"))}})
	w.env = append(w.env, "PI_MCP_MODEL=marks")
	help := bwrapHelp(t)
	for n, tc := range startFailures {
		stub := w.stub(fmt.Sprint("bwrap", n), help, "bwrap: "+tc.words)
		w.noAgent(t, []string{"PI_MCP_BWRAP=" + stub}, "making the cage", tc.words, tc.remedy)
	}
	old := w.stub("old", strings.ReplaceAll(help, "--json-status-fd", "--other"), "bwrap: Unknown option")
	w.noAgent(t, []string{"PI_MCP_BWRAP=" + old}, old, "too old", "--json-status-fd", "0.8")
	strange := w.stub("strange", "usage: strange\n", "")
	w.noAgent(t, []string{"PI_MCP_BWRAP=" + strange}, strange, "is it bubblewrap?")
	absent(t, w.path("ran"))
}

// A start is its own trial: what fails now is tried again by the next run of the same
// server, and works as soon as the machine does.
func TestF22Again(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stub := write(t, w.path("stubs", "later"), fmt.Sprintf(
		"#!/bin/sh\nif [ \"$1\" != --help ] && [ ! -e '%s' ]; then echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1; fi\nexec %s \"$@\"\n",
		w.path("repaired"), bwrapPath(t)))
	c := w.client("PI_MCP_BWRAP=" + stub)
	for range 2 {
		has(t, "run", c.refused("run", nil), "making the cage", "apparmor")
	}
	c.none()
	w.untouched()
	write(t, w.path("repaired"), "")
	c.run(nil)
}
