package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pi-mcp/agent/pirpc"
)

var built string // the executable

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fakepi")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	built = filepath.Join(dir, "pi")
	cmd := exec.Command("go", "build", "-o", built, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%v: %s", err, out))
	}
	return m.Run()
}

// install makes a directory with pi and the given files beside it.
func install(t *testing.T, files map[string]string) (pi string) {
	t.Helper()
	dir := t.TempDir()
	pi = filepath.Join(dir, "pi")
	if err := os.Link(built, pi); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return pi
}

// output runs pi with an empty input and returns everything about it.
func output(t *testing.T, pi string, args ...string) (stdout, stderr string, state *os.ProcessState) {
	t.Helper()
	var o, e bytes.Buffer
	cmd := exec.CommandContext(t.Context(), pi, args...)
	cmd.Stdout, cmd.Stderr = &o, &e
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return o.String(), e.String(), cmd.ProcessState
}

// A process is a pi in RPC mode.
type process struct {
	*pirpc.Client
	t       *testing.T
	cmd     *exec.Cmd
	records chan pirpc.Record

	mu  sync.Mutex
	out bytes.Buffer // everything it wrote
}

// start starts pi with a script as the model's, or "" for none. It is killed at
// the end of the test, if it still lives.
func start(t *testing.T, script string, args ...string) *process {
	t.Helper()
	files := map[string]string{}
	if script != "" {
		files["test.json"] = script
	}
	cmd := exec.Command(install(t, files), append([]string{"--mode", "rpc", "--provider", "fake", "--model", "test"}, args...)...)
	return begin(t, cmd)
}

func begin(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, records: make(chan pirpc.Record, 10_000)}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.Client = pirpc.New(pirpc.Config{In: in, Out: out, Log: p, On: func(r pirpc.Record) {
		r.Raw = slices.Clone(r.Raw)
		p.records <- r
	}})
	go func() {
		<-p.Done() // nothing is received any more
		close(p.records)
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-p.Done()
		cmd.Wait()
	})
	return p
}

// Write is the client's log.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) written() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// says waits until something is on the output, deltas included. It asks on, so
// that the wait ends with pi.
func (p *process) says(text string) {
	p.t.Helper()
	for !strings.Contains(p.written(), text) {
		p.ask("get_state")
	}
}

// until returns the records up to the first of a type, shortened.
func (p *process) until(typ string) (seen []string) {
	p.t.Helper()
	for r := range p.records {
		seen = append(seen, brief(r.Raw))
		if r.Type == typ {
			return seen
		}
	}
	p.t.Fatalf("no %s, but %q", typ, seen)
	return nil
}

// prompt returns the disposition.
func (p *process) prompt(message, behavior string) string {
	p.t.Helper()
	var d struct{ Disposition string }
	p.call("prompt", map[string]any{"message": message, "streamingBehavior": behavior}, &d)
	return d.Disposition
}

func (p *process) call(command string, args map[string]any, result any) {
	p.t.Helper()
	if err := p.Call(p.t.Context(), command, args, result); err != nil {
		p.t.Fatalf("%s: %v", command, err)
	}
}

// ask is a call without arguments that returns the data.
func (p *process) ask(command string) (data map[string]any) {
	p.t.Helper()
	p.call(command, nil, &data)
	return data
}

// quit ends pi's input and returns how it exited.
func (p *process) quit() string {
	p.t.Helper()
	p.CloseInput()
	return p.exit()
}

func (p *process) exit() string {
	<-p.Done()
	p.cmd.Wait()
	return p.cmd.ProcessState.String()
}

// wantOrder compares with what was expected, a line each.
func wantOrder(t *testing.T, got []string, want string) {
	t.Helper()
	if g, w := strings.Join(got, "\n"), strings.TrimSpace(strings.ReplaceAll(want, "\t", "")); g != w {
		t.Errorf("got:\n%s\n\nwant:\n%s", g, w)
	}
}

// script makes one out of lists of actions.
func script(on map[string]string) string {
	var list []string
	for _, command := range slices.Sorted(maps.Keys(on)) {
		list = append(list, fmt.Sprintf("%q:%s", command, on[command]))
	}
	return `{"on":{` + strings.Join(list, ",") + `}}`
}
