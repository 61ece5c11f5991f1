package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

// A wire is a server with nothing between the test and its streams. Every line
// on its stdout must be a JSON-RPC message.
type wire struct {
	t      testing.TB
	cmd    *exec.Cmd
	in     *os.File
	out    *os.File
	stderr output
	got    chan message
	early  map[string]message // answers that nobody has asked for yet, by id
	last   int                // request id
	ended  chan struct{}      // closed when the process has been waited for
}

type message struct {
	Version string `json:"jsonrpc"`
	ID      json.RawMessage
	Method  string
	Result  json.RawMessage
	Error   *struct {
		Code    int
		Message string
	}
}

// wire starts a server. It is killed with the test if it is still there then.
func (w *world) wire(env []string, args ...string) *wire {
	w.t.Helper()
	return w.wireTo(w.command(env, args...))
}

func (w *world) wireTo(cmd *exec.Cmd) *wire {
	w.t.Helper()
	// Pipes of our own: those of exec.Cmd lose what is unread at the end.
	stdin, in, err := os.Pipe()
	must(w.t, err)
	out, stdout, err := os.Pipe()
	must(w.t, err)
	c := &wire{t: w.t, cmd: cmd, in: in, out: out, got: make(chan message, 1024), early: map[string]message{}, ended: make(chan struct{})}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, &c.stderr
	must(w.t, cmd.Start())
	stdin.Close()
	stdout.Close()
	go c.read()
	go func() { defer close(c.ended); cmd.Wait() }()
	w.t.Cleanup(func() {
		cmd.Process.Kill()
		in.Close()
		out.Close()
		<-c.ended
		for range c.got { // read has ended
		}
		if w.t.Failed() {
			w.t.Logf("stderr of %v:\n%s", cmd.Args, c.stderr.String())
		}
	})
	return c
}

func (c *wire) read() {
	defer close(c.got)
	r := bufio.NewReader(c.out)
	for {
		line, err := r.ReadBytes('\n')
		if len(line) > 0 {
			var m message
			if json.Unmarshal(line, &m) != nil || m.Version != "2.0" {
				c.t.Errorf("on stdout: %q", line)
			}
			c.got <- m
		}
		if err != nil {
			return
		}
	}
}

// line writes one line as it is.
func (c *wire) line(text string) {
	c.t.Helper()
	_, err := io.WriteString(c.in, text+"\n")
	must(c.t, err)
}

// ask writes a request and returns its id.
func (c *wire) ask(method string, params obj) string {
	c.t.Helper()
	c.last++
	id := fmt.Sprint(c.last)
	text, err := json.Marshal(obj{"jsonrpc": "2.0", "id": c.last, "method": method, "params": params})
	must(c.t, err)
	c.line(string(text))
	return id
}

// answer waits for the answer with an id; "null" is that of a line that was no
// request.
func (c *wire) answer(id string) message {
	c.t.Helper()
	late := time.After(patience)
	for {
		if m, ok := c.early[id]; ok {
			delete(c.early, id)
			return m
		}
		select {
		case m, ok := <-c.got:
			if !ok {
				c.t.Fatalf("the server ended without an answer to %s\n%s", id, c.stderr.String())
			}
			if m.Method == "" {
				c.early[string(m.ID)] = m
			}
		case <-late:
			c.t.Fatalf("no answer to %s\n%s", id, c.stderr.String())
		}
	}
}

// hello opens a session of the older era.
func (c *wire) hello() {
	c.t.Helper()
	m := c.answer(c.ask("initialize", obj{"protocolVersion": "2025-06-18", "capabilities": obj{}, "clientInfo": obj{"name": "e2e", "version": "1"}}))
	if m.Error != nil {
		c.t.Fatalf("initialize: %+v", m.Error)
	}
	c.line(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// tool begins a call and returns its id.
func (c *wire) tool(name string, args obj) string {
	c.t.Helper()
	return c.ask("tools/call", obj{"name": name, "arguments": args})
}

// result waits for the end of a call.
func (c *wire) result(id string) (text string, failed bool) {
	c.t.Helper()
	m := c.answer(id)
	var r struct {
		IsError bool
		Content []struct{ Text string }
	}
	if m.Error != nil || json.Unmarshal(m.Result, &r) != nil || len(r.Content) == 0 {
		c.t.Fatalf("call %s: %+v %s", id, m.Error, m.Result)
	}
	return r.Content[0].Text, r.IsError
}

// do calls a tool that must succeed.
func (c *wire) do(name string, args obj) info {
	c.t.Helper()
	text, failed := c.result(c.tool(name, args))
	if failed {
		c.t.Fatalf("%s: %s", name, text)
	}
	var i info
	must(c.t, json.Unmarshal([]byte(text), &i))
	return i
}

// exit waits for the end of the server and returns its exit code, -1 after a
// signal.
func (c *wire) exit() int {
	c.t.Helper()
	select {
	case <-c.ended:
		return c.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		c.t.Fatalf("the server does not end\n%s", c.stderr.String())
		return 0
	}
}
