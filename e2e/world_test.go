package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pi-mcp/cage/cgroup"
)

// A world is a directory with all that servers of one test share: the state, the
// pi to run and that pi's settings on the host. When the test ends, all servers
// are closed, and no process may be left.
type world struct {
	t   testing.TB
	dir string
	env []string // of every server; later entries win

	// The servers' user and what they inherit; nil: this process's, and nothing.
	user  *syscall.Credential
	files []*os.File
}

// newWorld makes a world whose pi is the fake one.
func newWorld(t testing.TB, env ...string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	for _, dir := range []string{"state", "home", "host-pi"} {
		must(t, os.Mkdir(w.path(dir), 0o700))
	}
	link(t, programs.fakePi, w.path("pi", "pi"))
	w.env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.path("home"), "PI_CODING_AGENT_DIR=" + w.path("host-pi"),
		"PI_MCP_DB=" + w.path("state", "db"), "PI_MCP_AGENTS_DIR=" + w.path("agents"), "PI_MCP_PI=" + w.path("pi", "pi"),
		"PI_MCP_PROVIDER=fake", "PI_MCP_MODEL=plain", "PI_MCP_REFRESH_PAUSE=100ms",
	}, env...)
	if uncounted() {
		w.env = append([]string{"PI_MCP_MAX_PROCESSES=none"}, w.env...)
	}
	t.Cleanup(w.sweep)
	t.Cleanup(w.quiet)
	return w
}

// uncounted reports whether nothing counts the processes of agents here: root's are
// counted in control groups only. A start with a limit on them is then refused.
func uncounted() bool {
	return os.Geteuid() == 0 && !enforced(cgroup.Limits{Processes: 1})
}

// enforced reports whether this machine can hold agents to l.
func enforced(l cgroup.Limits) bool {
	control, err := cgroup.Detect()
	if err != nil {
		return false
	}
	_, lacks := control.Trim(l)
	return len(lacks) == 0
}

// sweep does what the next server would do after a killed one: the control groups of
// its agents are nowhere below the world's directory.
func (w *world) sweep() {
	control, err := cgroup.Detect()
	if err != nil {
		return // no server has made any
	}
	owners, err := os.ReadDir(w.path("state", "owners"))
	if err != nil && !os.IsNotExist(err) {
		w.t.Error(err)
	}
	for _, o := range owners {
		if err := control.Sweep(context.Background(), o.Name()); err != nil {
			w.t.Error(err)
		}
	}
}

func (w *world) path(parts ...string) string {
	return filepath.Join(append([]string{w.dir}, parts...)...)
}

// command is a server that has not been started.
func (w *world) command(env []string, args ...string) *exec.Cmd {
	program := programs.piMCP
	if w.user != nil { // who may be unable to get there
		program = w.path("pi-mcp")
	}
	cmd := exec.Command(program, args...)
	cmd.Env = append(append([]string{}, w.env...), env...)
	cmd.Dir, cmd.ExtraFiles = w.path("home"), w.files
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: w.user}
	return cmd
}

// script makes a model of the fake pi that plays s.
func (w *world) script(model string, s obj) {
	w.t.Helper()
	text, err := json.Marshal(s)
	must(w.t, err)
	write(w.t, w.path("pi", model+".json"), string(text))
}

// quiet fails the test when a process of this world is left, be it a server or
// something in a cage.
func (w *world) quiet() {
	w.t.Helper()
	var left []string
	eventually(w.t, func() bool {
		var err error
		left, err = processes(w.dir)
		return len(left) == 0 && err == nil
	}, func() string { return "processes are left: " + strings.Join(left, "\n") })
}

// caged lists what runs in this world's cages.
func (w *world) caged() []string {
	w.t.Helper()
	left, err := processes(w.dir + "/agents")
	must(w.t, err)
	return left
}

// untouched fails the test when anything of an agent is left on disk.
func (w *world) untouched() {
	w.t.Helper()
	for _, dir := range []string{w.path("agents"), w.path("agents", ".trash")} {
		entries, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			w.t.Error(err)
		}
		for _, e := range entries {
			if e.Name() != ".trash" {
				w.t.Errorf("%s is left in %s", e.Name(), dir)
			}
		}
	}
}

// obj is a JSON object.
type obj = map[string]any

// do is one action of the fake pi, from pairs of names and values.
func do(pairs ...any) obj {
	m := obj{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return m
}

// act is a message that has the fake pi play actions as its turn.
func act(actions ...obj) string {
	text, err := json.Marshal(actions)
	if err != nil {
		panic(err)
	}
	return "!" + string(text)
}

// never is a turn of the fake pi without an end.
func never() string {
	return act(do("record", obj{"type": "agent_start"}), do("wait_file", "/tmp/never"))
}

// deaf is a fake pi that, once prompted, neither answers nor ends.
func deaf() obj {
	return obj{"on": obj{"prompt": []obj{do("hang", true)}}, "eof": []obj{do("ignore_eof", true)}}
}
