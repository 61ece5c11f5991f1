package agent_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pi-mcp/agent"
	"pi-mcp/artifacts"
	"pi-mcp/store"
)

// fakePi is the path of the fake pi and initProgram that of pi-mcp, the first process
// of every cage, built once for all tests.
var fakePi, initProgram string

// programsVar names a directory that holds both already, for a user who cannot build.
const programsVar = "AGENT_TEST_PROGRAMS"

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	// A Go process that blocks in a system call at the wrong moment can freeze
	// for a minute when no timer is pending.
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	go func() {
		for range tick.C {
		}
	}()
	if dir := os.Getenv(programsVar); dir != "" {
		fakePi, initProgram = filepath.Join(dir, "fakepi"), filepath.Join(dir, "pi-mcp")
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "agent-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	fakePi, initProgram = filepath.Join(dir, "pi"), filepath.Join(dir, "pi-mcp")
	for path, pkg := range map[string]string{fakePi: "../e2e/fakepi", initProgram: "../cmd/pi-mcp"} {
		build := exec.Command("go", "build", "-o", path, pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "cannot build %s: %v\n%s", pkg, err, out)
			return 1
		}
	}
	return m.Run()
}

// A world is a supervisor over a real store and real cages, with a fake pi.
type world struct {
	t     testing.TB
	dir   string // state, agents, pi
	sup   *agent.Supervisor
	db    *store.DB
	files *artifacts.Store
	who   agent.Caller
	cfg   agent.Config
	flags int // of busy so far
}

// newWorld makes a world of its own. Settings change its configuration.
func newWorld(t testing.TB, settings ...func(*agent.Config)) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), who: agent.Caller{Group: "default"}}
	for _, d := range []string{"pi", "state", "host"} {
		must(t, os.Mkdir(filepath.Join(w.dir, d), 0o755))
	}
	link(t, fakePi, w.piDir("pi"))
	w.open(settings...)
	return w
}

// open opens the store and starts a supervisor, as the start of a server does.
func (w *world) open(settings ...func(*agent.Config)) {
	w.t.Helper()
	db, err := store.Open(w.t.Context(), filepath.Join(w.dir, "state", "db"))
	must(w.t, err)
	w.t.Cleanup(func() { db.Close() })
	files, err := artifacts.Open(filepath.Join(w.dir, "agents"), db.ID())
	must(w.t, err)
	cfg := agent.Config{
		Store: db, Artifacts: files, StateDir: filepath.Join(w.dir, "state"), HostPi: filepath.Join(w.dir, "host"),
		Path: os.Getenv("PATH"), Pi: w.piDir("pi"), Init: initProgram, Provider: "fake", Model: "plain",
		Limits: limits(),
		Log:    slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	for _, set := range settings {
		set(&cfg)
	}
	sup, err := agent.New(w.t.Context(), cfg)
	must(w.t, err)
	w.t.Cleanup(sup.Close)
	w.sup, w.db, w.files, w.cfg = sup, db, files, cfg
}

// limits are the default ones. Where root has no control group to count processes in,
// there is none on them: every start would be refused otherwise.
func limits() agent.Limits {
	l := agent.DefaultLimits()
	if uncounted() {
		l.Processes = agent.NoLimit
	}
	return l
}

func (w *world) piDir(name string) string { return filepath.Join(w.dir, "pi", name) }

// script makes a model of the fake pi that plays s.
func (w *world) script(model string, s map[string]any) {
	w.t.Helper()
	text, err := json.Marshal(s)
	must(w.t, err)
	must(w.t, os.WriteFile(w.piDir(model+".json"), text, 0o644))
}

// act is a message that has the fake pi play actions as its turn.
func act(actions ...map[string]any) string {
	text, err := json.Marshal(actions)
	if err != nil {
		panic(err)
	}
	return "!" + string(text)
}

// do is one action.
func do(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return m
}

// record is an action that writes one of pi's records.
func record(kind string, pairs ...any) map[string]any {
	return do("record", do(append([]any{"type", kind}, pairs...)...))
}

// run starts an agent, or ends the test.
func (w *world) run(req agent.RunRequest) agent.Info {
	w.t.Helper()
	res, err := w.sup.Run(w.t.Context(), w.who, req)
	must(w.t, err)
	return res.Info
}

// send gives a message, or ends the test.
func (w *world) send(id, message string) agent.SendResult {
	w.t.Helper()
	res, err := w.sup.Send(w.t.Context(), w.who, id, message, agent.FollowUp, false)
	must(w.t, err)
	return res
}

func (w *world) info(id string) agent.Info {
	w.t.Helper()
	i, err := w.sup.Info(w.t.Context(), w.who, id)
	must(w.t, err)
	return i
}

// until waits for an agent to be as ok wants it. It fails when the test's time
// is up, not before: how long something takes is not what tests are about.
func (w *world) until(id, what string, ok func(agent.Info) bool) agent.Info {
	w.t.Helper()
	var last agent.Info
	eventually(w.t, func() bool { last = w.info(id); return ok(last) }, func() string {
		text, _ := json.MarshalIndent(last, "", "  ")
		return fmt.Sprintf("%s never came; the agent is %s", what, text)
	})
	return last
}

func (w *world) untilState(id string, s agent.State) agent.Info {
	w.t.Helper()
	return w.until(id, string(s), func(i agent.Info) bool { return i.State == s })
}

// settled waits for so many settles.
func (w *world) settled(id string, n int64) agent.Info {
	w.t.Helper()
	return w.until(id, fmt.Sprintf("settle %d", n), func(i agent.Info) bool { return i.SettleCount >= n && i.State == agent.Idle })
}

// eventually asks again and again until ok. The bound is only there so that a
// broken program does not hang the tests.
func eventually(t testing.TB, ok func() bool, why func() string) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	bound := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-bound:
			t.Fatal(why())
		}
	}
}

// empty fails when anything of an agent is left: a row, a directory, a process.
func (w *world) empty() {
	w.t.Helper()
	rows, _, err := w.db.List(w.t.Context(), store.Query{Group: w.who.Group})
	must(w.t, err)
	if len(rows) > 0 {
		w.t.Errorf("%d rows are left, the first is %+v", len(rows), rows[0])
	}
	entries, err := os.ReadDir(filepath.Join(w.dir, "agents"))
	must(w.t, err)
	for _, e := range entries {
		if e.Name() != ".trash" {
			w.t.Errorf("%s is left in the agents directory", e.Name())
		}
	}
	trash, err := os.ReadDir(filepath.Join(w.dir, "agents", ".trash"))
	if err == nil && len(trash) > 0 {
		w.t.Errorf("%d directories are left in the trash", len(trash))
	}
	w.noProcess()
}

// noProcess fails when a process of this world's agents is left.
func (w *world) noProcess() {
	w.t.Helper()
	eventually(w.t, func() bool { return len(w.processes()) == 0 }, func() string {
		return fmt.Sprintf("processes are left: %v", w.processes())
	})
}

// processes lists the live processes in a cage of this world: their mounts come
// from its agents directory.
func (w *world) processes() (all []string) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	must(w.t, err)
	for _, d := range dirs {
		mounts, err := os.ReadFile(d + "/mountinfo")
		if err != nil || !strings.Contains(string(mounts), w.dir+"/agents/") {
			continue
		}
		cmdline, _ := os.ReadFile(d + "/cmdline")
		if len(cmdline) > 0 { // a zombie has none
			all = append(all, strings.ReplaceAll(string(cmdline), "\x00", " "))
		}
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func link(t testing.TB, from, to string) {
	t.Helper()
	if os.Link(from, to) == nil {
		return
	}
	data, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, data, 0o755))
}
