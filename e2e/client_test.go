package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A client is an SDK client with a server of its own over stdio.
type client struct {
	t       testing.TB
	cmd     *exec.Cmd
	session *mcp.ClientSession
	stderr  output
	results output // the text of every tool result
	end     func() error
}

// client starts a server and connects to it. It is closed with the test.
func (w *world) client(env ...string) *client {
	w.t.Helper()
	return w.clientOf("", env...)
}

// clientOf is client with a protocol version, "" for the SDK's choice.
func (w *world) clientOf(version string, env ...string) *client {
	w.t.Helper()
	c := &client{t: w.t, cmd: w.command(env)}
	c.cmd.Stderr = &c.stderr
	// The SDK's default is to signal after 5 s, which a busy machine can take.
	transport := &mcp.CommandTransport{Command: c.cmd, TerminateDuration: patience}
	sdk := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil)
	var err error
	c.session, err = sdk.Connect(w.t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		w.t.Fatalf("cannot connect: %v\n%s", err, c.stderr.String())
	}
	c.end = sync.OnceValue(c.session.Close)
	w.t.Cleanup(func() {
		c.close()
		if w.t.Failed() {
			w.t.Logf("stderr of server %d:\n%s", c.cmd.Process.Pid, c.stderr.String())
		}
	})
	return c
}

// close ends the session, as a client that quits does, and expects the server to
// end well, unless it has been killed.
func (c *client) close() {
	c.t.Helper()
	if err := c.end(); err != nil && c.cmd.ProcessState.ExitCode() != -1 {
		c.t.Errorf("the server did not end well: %v", err)
	}
}

// kill ends the server with SIGKILL.
func (c *client) kill() {
	c.t.Helper()
	must(c.t, c.cmd.Process.Kill())
	c.close()
}

// try calls a tool and returns the text of its result. It may be called from any
// goroutine.
func (c *client) try(tool string, args obj) (text string, failed bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	res, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", false, err
	}
	text = res.Content[0].(*mcp.TextContent).Text
	fmt.Fprintln(&c.results, text)
	if res.IsError {
		return text, true, nil
	}
	var same any // the text is the structured content once more
	if err := json.Unmarshal([]byte(text), &same); err != nil {
		return text, false, err
	}
	if diff := cmp.Diff(same, res.StructuredContent); diff != "" {
		return text, false, fmt.Errorf("the text of %s is not its structured content: %s", tool, diff)
	}
	return text, false, nil
}

// call calls a tool that must succeed, and reads its result.
func call[T any](c *client, tool string, args obj) T {
	c.t.Helper()
	text, failed, err := c.try(tool, args)
	if failed || err != nil {
		c.t.Fatalf("%s: %s%v", tool, text, err)
	}
	var v T
	must(c.t, json.Unmarshal([]byte(text), &v))
	return v
}

// refused calls a tool that must fail, and returns the words.
func (c *client) refused(tool string, args obj) string {
	c.t.Helper()
	text, failed, err := c.try(tool, args)
	if !failed || err != nil {
		c.t.Fatalf("%s should be a tool error: %s %v", tool, text, err)
	}
	return text
}

// output is what somebody wrote so far.
type output struct {
	mu   sync.Mutex // protects text
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
