package mcpserver_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"pi-mcp/agent"
	"pi-mcp/artifacts"
	"pi-mcp/cage/cgroup"
	"pi-mcp/mcpserver"
	"pi-mcp/store"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// buildDir is where the fake pi is built, by the first test that needs it.
var buildDir = sync.OnceValue(func() string { return filepath.Join(os.TempDir(), fmt.Sprint("mcpserver-test-", os.Getpid())) })

var fakePi = built("pi", "../e2e/fakepi")

// initProgram is the first process of every cage.
var initProgram = built("pi-mcp", "../cmd/pi-mcp")

func built(name, pkg string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		path := filepath.Join(buildDir(), name)
		build := exec.Command("go", "build", "-o", path, pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("cannot build %s: %w\n%s", pkg, err, out)
		}
		return path, nil
	})
}

func TestMain(m *testing.M) {
	// A Go process that blocks in a system call at the wrong moment can freeze
	// for a minute when no timer is pending.
	go func() {
		for range time.Tick(100 * time.Millisecond) {
		}
	}()
	code := m.Run()
	os.RemoveAll(buildDir())
	os.Exit(code)
}

// A world is a server over a supervisor with a real store, real cages and a fake
// pi.
type world struct {
	t      testing.TB
	dir    string // state, agents, pi
	db     *store.DB
	files  *artifacts.Store
	sup    *agent.Supervisor
	server *mcpserver.Server
	who    agent.Caller
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), who: agent.Caller{Group: "default"}}
	built, err := fakePi()
	must(t, err)
	first, err := initProgram()
	must(t, err)
	for _, d := range []string{"pi", "state", "host"} {
		must(t, os.Mkdir(filepath.Join(w.dir, d), 0o755))
	}
	must(t, os.Link(built, filepath.Join(w.dir, "pi", "pi")))
	w.db, err = store.Open(t.Context(), filepath.Join(w.dir, "state", "db"))
	must(t, err)
	t.Cleanup(func() { w.db.Close() })
	w.files, err = artifacts.Open(filepath.Join(w.dir, "agents"), w.db.ID())
	must(t, err)
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	w.sup, err = agent.New(t.Context(), agent.Config{
		Store: w.db, Artifacts: w.files, StateDir: filepath.Join(w.dir, "state"), HostPi: filepath.Join(w.dir, "host"),
		Path: os.Getenv("PATH"), Pi: filepath.Join(w.dir, "pi", "pi"), Init: first, Provider: "fake", Model: "plain",
		Limits: limits(), Log: log, ChildMCP: true, // for those that call Serve
	})
	must(t, err)
	t.Cleanup(w.sup.Close)
	w.server = mcpserver.New(mcpserver.Config{Supervisor: w.sup, Log: log})
	return w
}

// limits are the default ones. Where root has no control group to count processes in,
// there is none on them: every start would be refused otherwise.
func limits() agent.Limits {
	l := agent.DefaultLimits()
	control, err := cgroup.Detect()
	lacks := []string{"no control group"}
	if err == nil {
		_, lacks = control.Trim(cgroup.Limits{Processes: 1})
	}
	if os.Geteuid() == 0 && len(lacks) > 0 {
		l.Processes = agent.NoLimit
	}
	return l
}

// connect returns a session of a real client. version forces a protocol version;
// "" is the newest.
func (w *world) connect(version string) *mcp.ClientSession {
	w.t.Helper()
	clientEnd, serverEnd := mcp.NewInMemoryTransports()
	_, err := w.server.MCP(w.who).Connect(w.t.Context(), serverEnd, nil)
	must(w.t, err)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "0"}, nil)
	session, err := client.Connect(w.t.Context(), clientEnd, &mcp.ClientSessionOptions{ProtocolVersion: version})
	must(w.t, err)
	w.t.Cleanup(func() { session.Close() })
	return session
}

// script makes a model of the fake pi that plays what happens on a command.
func (w *world) script(model string, script map[string]any) {
	w.t.Helper()
	text, err := json.Marshal(script)
	must(w.t, err)
	must(w.t, os.WriteFile(filepath.Join(w.dir, "pi", model+".json"), text, 0o644))
}

// insert stores an agent that has ended, without a directory.
func (w *world) insert(id string, change ...func(*store.Agent)) store.Agent {
	w.t.Helper()
	now := time.UnixMilli(1_700_000_000_000)
	a := store.Agent{
		ID: id, Group: w.who.Group, Name: "fake/plain", Provider: "fake", Model: "plain", Cwd: "/tmp", State: string(agent.Exited),
		Created: now, Updated: now, LastActivity: now,
	}
	for _, f := range change {
		f(&a)
	}
	must(w.t, w.db.Insert(w.t.Context(), a, 0))
	return a
}

// shelve stores an agent that has ended and left a log.
func (w *world) shelve(id string, stdout []byte) {
	w.t.Helper()
	w.insert(id)
	must(w.t, w.files.Create(id, []byte("{}\n")))
	must(w.t, os.WriteFile(w.files.Paths(id).StdoutLog, stdout, 0o600))
}

// settled waits until an agent has ended so many runs and is idle.
func (w *world) settled(id string, n int64) {
	w.t.Helper()
	w.eventually("a settle", func() bool {
		i, err := w.sup.Info(w.t.Context(), w.who, id)
		must(w.t, err)
		return i.SettleCount >= n && i.State == agent.Idle
	})
}

// eventually asks again and again until ok. The bound is only there so that a
// broken program does not hang the tests.
func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	bound := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-bound:
			w.t.Fatalf("%s never came", what)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
