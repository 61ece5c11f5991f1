package mcpserver

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sys/unix"
)

// A talk is a real server behind a front, and the raw ends that a client holds.
type talk struct {
	t     *testing.T
	front *front
	in    io.WriteCloser
	out   io.ReadCloser
	lines *bufio.Reader // of out
	ended chan error    // what Run returned
	tools *frontTools
}

// frontTools holds calls until the test lets them go.
type frontTools struct {
	started, release chan struct{}
	cancelled        chan error
}

type holdInput struct {
	Bytes int `json:"bytes,omitempty" jsonschema:"how long the answer is"`
}

// hold answers when released, or with an error when its context ends.
func (h *frontTools) hold(ctx context.Context, _ *mcp.CallToolRequest, in holdInput) (*mcp.CallToolResult, any, error) {
	h.started <- struct{}{}
	select {
	case <-h.release:
	case <-ctx.Done():
		h.cancelled <- context.Cause(ctx)
		return nil, nil, ctx.Err()
	}
	text := "released" + strings.Repeat(".", in.Bytes)
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
}

// startTalk runs a server with a tool "hold". set, when not nil, sets the
// front's hooks.
func startTalk(t *testing.T, pipe func(*testing.T) (io.ReadCloser, io.WriteCloser), drain time.Duration, set func(*front)) *talk {
	t.Helper()
	fromClient, in := pipe(t)
	out, toClient := pipe(t)
	c := &talk{
		t: t, in: in, out: out, lines: bufio.NewReader(out), ended: make(chan error, 1),
		front: newFront(fromClient, toClient, drain),
		tools: &frontTools{make(chan struct{}, 64), make(chan struct{}), make(chan error, 64)},
	}
	if set != nil {
		set(c.front)
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "front", Version: "0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "hold"}, c.tools.hold)
	go func() { c.ended <- server.Run(context.Background(), c.front.Transport()) }()
	return c
}

func osPipe(t *testing.T) (io.ReadCloser, io.WriteCloser) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// memPipe is for synctest, which knows nothing of file descriptors.
func memPipe(*testing.T) (io.ReadCloser, io.WriteCloser) { return io.Pipe() }

func (c *talk) send(lines ...string) {
	c.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(c.in, line+"\n"); err != nil {
			c.t.Fatalf("cannot send %.100q: %v", line, err)
		}
	}
}

// A wireReply is a line of the server as a client sees it.
type wireReply struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result"`
	Error   struct {
		Code    int64
		Message string
	} `json:"error"`
}

func (c *talk) receive() wireReply {
	c.t.Helper()
	line, err := c.lines.ReadBytes('\n')
	if err != nil {
		c.t.Fatalf("no answer: %v", err)
	}
	var r wireReply
	if err := json.Unmarshal(line, &r); err != nil || r.Version != "2.0" {
		c.t.Fatalf("not a message: %.200q (%v)", line, err)
	}
	return r
}

// expect reads one line and compares its id and error code; code 0 is a result.
func (c *talk) expect(id string, code int64) wireReply {
	c.t.Helper()
	r := c.receive()
	if string(r.ID) != id || r.Error.Code != code || (r.Result == nil) != (code != 0) {
		c.t.Fatalf("answer to %s with code %d (%s) and result %.100s; want id %s, code %d",
			r.ID, r.Error.Code, r.Error.Message, r.Result, id, code)
	}
	return r
}

// finish closes stdin and waits for the session to end without an error and
// without an answer that the test did not read.
func (c *talk) finish() {
	c.t.Helper()
	c.in.Close()
	if rest, err := io.ReadAll(c.lines); err != nil || len(rest) > 0 {
		c.t.Errorf("%.200q was left on stdout (%v)", rest, err)
	}
	if err := <-c.ended; err != nil {
		c.t.Errorf("the session ended with %v", err)
	}
	c.front.running.Wait()
}

const (
	initialize = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":` +
		`{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"0"}}}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	newMeta     = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
)

func ping(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}` }

// hold is a call in the newer era, which needs no initialize.
func hold(id string, bytes int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"hold","arguments":{"bytes":%d},%s}}`, id, bytes, newMeta)
}

func TestF41ParseErrorThenPong(t *testing.T) {
	c := startTalk(t, osPipe, time.Minute, nil)
	c.send(`{bad json`, ping("1"))
	c.expect("null", -32700)
	c.expect("1", 0)
	c.finish()
}

func TestFrontServesBothEras(t *testing.T) {
	c := startTalk(t, osPipe, time.Minute, nil)
	c.send(initialize)
	if r := c.expect(`"init"`, 0); !strings.Contains(string(r.Result), `"protocolVersion":"2025-11-25"`) {
		t.Errorf("initialize says %s", r.Result)
	}
	c.send(initialized, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	c.expect("3", 0)
	c.send(`{"jsonrpc":"2.0","id":"d","method":"server/discover","params":{` + newMeta + `}}`)
	if r := c.expect(`"d"`, 0); !strings.Contains(string(r.Result), `"2026-07-28"`) {
		t.Errorf("discover says %s", r.Result)
	}
	close(c.tools.release)
	c.send(hold("4", 0))
	c.expect("4", 0)
	c.finish()
}

func TestFrontServesSDKClient(t *testing.T) {
	c := startTalk(t, osPipe, time.Minute, nil)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "0"}, nil)
	session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: c.out, Writer: c.in}, nil)
	if err != nil {
		t.Fatal(err)
	}
	close(c.tools.release)
	for range 50 {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "hold", Arguments: map[string]any{}})
		if err != nil || result.IsError {
			t.Fatalf("%+v, %v", result, err)
		}
		<-c.tools.started
	}
	session.Close()
	if err := <-c.ended; err != nil {
		t.Error(err)
	}
	c.front.running.Wait()
}

// Answers of several calls at a time stay whole lines, and each gets its own.
func TestFrontConcurrentCalls(t *testing.T) {
	c := startTalk(t, osPipe, time.Minute, nil)
	close(c.tools.release)
	const calls = 40
	go func() {
		for i := range calls {
			c.send(hold(fmt.Sprint(i), 10_000), `{bad`)
		}
	}()
	seen := map[string]int{}
	for range 2 * calls {
		seen[string(c.receive().ID)]++
	}
	if len(seen) != calls+1 || seen["null"] != calls {
		t.Errorf("%d ids were answered, %d lines refused", len(seen), seen["null"])
	}
	c.finish()
}

func TestFrontDuplicateID(t *testing.T) {
	c := startTalk(t, osPipe, time.Minute, nil)
	c.send(hold("7", 0))
	<-c.tools.started
	c.send(ping("7"), ping("7.0"), ping(`"7"`))
	if r := c.expect("null", -32600); !strings.Contains(r.Error.Message, "request id 7 is in use") {
		t.Errorf("refused with %q", r.Error.Message)
	}
	c.expect("null", -32600)
	c.expect(`"7"`, 0) // a string is another id
	close(c.tools.release)
	c.expect("7", 0)
	c.send(ping("7")) // and after its answer it is free
	c.expect("7", 0)
	c.finish()
}

func TestFrontCancelledIsAnswered(t *testing.T) {
	c := startTalk(t, osPipe, time.Minute, nil)
	c.send(hold("7", 0))
	<-c.tools.started
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	<-c.tools.cancelled
	c.expect("7", 0) // a tool's error is a result
	c.finish()
}

// The hook is called while the call is under way, and what it lets go is
// answered; the last line has no newline.
func TestFrontDrainsAtEOF(t *testing.T) {
	var c *talk
	hooks := 0
	c = startTalk(t, osPipe, time.Minute, func(f *front) {
		f.onEOF = func() { hooks++; close(c.tools.release) }
	})
	c.send(hold("1", 100_000))
	<-c.tools.started
	if _, err := io.WriteString(c.in, ping("2")); err != nil {
		t.Fatal(err)
	}
	c.in.Close()
	got := map[string]bool{string(c.expectAny()): true, string(c.expectAny()): true}
	if !got["1"] || !got["2"] {
		t.Errorf("answered: %v", got)
	}
	if c.finish(); hooks != 1 {
		t.Errorf("onEOF was called %d times", hooks)
	}
}

func (c *talk) expectAny() json.RawMessage {
	c.t.Helper()
	r := c.receive()
	if r.Result == nil {
		c.t.Errorf("no result for %s: %+v", r.ID, r.Error)
	}
	return r.ID
}

// The clock is synctest's: it stands while anything can run. The bubble also
// ends the test with an error if a goroutine of the session is left.
func TestFrontDrainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startTalk(t, memPipe, 5*time.Second, nil)
		c.send(hold("1", 0))
		<-c.tools.started
		start := time.Now()
		c.in.Close()
		if err := <-c.tools.cancelled; !errors.Is(err, io.EOF) {
			t.Errorf("the call was cancelled because of %v", err)
		}
		if got := time.Since(start); got != 5*time.Second {
			t.Errorf("cancelled after %v, want 5s", got)
		}
		c.finish()
	})
}

// What cannot end by itself holds nothing up: a subscription, or no call.
func TestFrontDrainsOnlyCalls(t *testing.T) {
	for name, line := range map[string]string{
		"nothing": "",
		"listen": `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":` +
			`{"toolsListChanged":true},` + newMeta + `}}`,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startTalk(t, memPipe, time.Hour, nil)
				start := time.Now()
				c.send(line)
				go io.Copy(io.Discard, c.out)
				synctest.Wait()
				c.in.Close()
				if err := <-c.ended; err != nil {
					t.Error(err)
				}
				if got := time.Since(start); got != 0 {
					t.Errorf("ended after %v", got)
				}
			})
		})
	}
}

func TestFrontEndsDrainWhenClosed(t *testing.T) {
	eof := make(chan struct{})
	c := startTalk(t, osPipe, time.Hour, func(f *front) { f.onEOF = func() { close(eof) } })
	c.send(hold("1", 0))
	<-c.tools.started
	c.in.Close()
	<-eof
	c.front.Close()
	<-c.tools.cancelled
	<-c.ended
	c.front.running.Wait()
}

// F43: the client closes its end of stdout while nothing is being written.
func TestF43StdoutClosedWhileQuiet(t *testing.T) {
	broken := make(chan error, 2)
	c := startTalk(t, osPipe, time.Hour, func(f *front) { f.onBroken = func(err error) { broken <- err } })
	c.send(hold("1", 0))
	<-c.tools.started
	c.out.Close()
	if err := <-broken; !errors.Is(err, unix.EPIPE) {
		t.Errorf("broken because of %v", err)
	}
	<-c.tools.cancelled
	if err := <-c.ended; err != nil {
		t.Errorf("the session ended with %v", err)
	}
	c.front.running.Wait()
	if len(broken) != 0 {
		t.Error("reported twice")
	}
}

// F43: where it cannot be seen but by writing, the first failure is the last.
func TestF43FailedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := make(chan error, 100)
		c := startTalk(t, memPipe, time.Hour, func(f *front) { f.onBroken = func(err error) { broken <- err } })
		c.out.Close()
		c.send(`{bad`)
		<-c.ended
		if len(broken) != 1 {
			t.Fatalf("reported %d times", len(broken))
		}
		if err := <-broken; !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("broken because of %v", err)
		}
		if err := c.front.writeLine([]byte("{}")); err == nil {
			t.Error("a write after the failure passed")
		}
	})
}

// A client that does not read blocks the writers; Close frees them.
func TestFrontCloseFreesBlockedWrite(t *testing.T) {
	reported := make(chan error, 1)
	c := startTalk(t, osPipe, time.Hour, func(f *front) { f.onBroken = func(err error) { reported <- err } })
	close(c.tools.release)
	c.send(hold("1", 1<<20))
	if _, err := c.out.Read(make([]byte, 1)); err != nil { // the write has begun, and a pipe cannot take it all
		t.Fatal(err)
	}
	c.front.Close()
	<-c.ended
	c.front.running.Wait()
	if len(reported) != 0 {
		t.Errorf("our own Close was reported: %v", <-reported)
	}
	if err := c.front.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}

func TestFrontFrameLimit(t *testing.T) {
	c := startTalk(t, osPipe, time.Minute, nil)
	pad := func(size int) string {
		start, end := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"pad":"`, `"}}}`
		return start + strings.Repeat("a", size-len(start)-len(end)) + end
	}
	c.send(pad(maxFrame))
	c.expect("1", 0)
	c.send(pad(maxFrame+1), ping("2"))
	if r := c.expect("null", -32600); !strings.Contains(r.Error.Message, "16777216 bytes") {
		t.Errorf("refused with %q", r.Error.Message)
	}
	c.expect("2", 0)
	c.finish()
}
