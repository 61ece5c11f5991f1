package pirpc_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"pi-mcp/agent/pirpc"
)

// A fakePi is the other end of a conversation, played step by step by a test
// in a synctest bubble.
type fakePi struct {
	*pirpc.Client
	t   *testing.T
	in  *bufio.Reader  // what the client tells pi
	inC *io.PipeReader // the same, to close it
	out *io.PipeWriter // what pi says

	mu  sync.Mutex
	got []string // what the test's callbacks noted, in order
}

// talk starts a conversation in a bubble and plays the script in it. At the
// end pi hangs up, and the bubble checks that no goroutine is left.
func talk(t *testing.T, cfg pirpc.Config, script func(*testing.T, *fakePi)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		p := &fakePi{t: t, in: bufio.NewReader(inR), inC: inR, out: outW}
		cfg.In, cfg.Out = inW, outR
		if cfg.On == nil {
			cfg.On = func(r pirpc.Record) { p.note("%s", r.Type) }
		}
		p.Client = pirpc.New(cfg)
		script(t, p)
		outW.Close()
		<-p.Done()
	})
}

func (p *fakePi) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, fmt.Sprintf(format, args...))
}

// says writes lines as pi would, and waits until they are dealt with.
func (p *fakePi) says(lines ...string) {
	p.t.Helper()
	for _, l := range lines {
		if _, err := io.WriteString(p.out, l+"\n"); err != nil {
			p.t.Fatal(err)
		}
	}
	synctest.Wait()
}

// reads returns the next thing that pi was told.
func (p *fakePi) reads() map[string]any {
	p.t.Helper()
	line, err := p.in.ReadString('\n')
	if err != nil {
		p.t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		p.t.Fatalf("%q: %v", line, err)
	}
	return m
}

// asks sends a command whose answer is noted under its name.
func (p *fakePi) asks(command string) {
	p.t.Helper()
	err := p.Send(command, nil, func(r pirpc.Response) { p.note("%s=%v/%v", command, r.Success, r.Err) })
	if err != nil {
		p.t.Fatal(err)
	}
}

// want compares the notes taken so far, and forgets them.
func (p *fakePi) want(notes ...string) {
	p.t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.got, notes) {
		p.t.Errorf("noted:\n\t%s\nwant:\n\t%s", strings.Join(p.got, "\n\t"), strings.Join(notes, "\n\t"))
	}
	p.got = nil
}

// listen reads a whole output and returns what On received.
func listen(t *testing.T, out io.Reader, cfg pirpc.Config) (records []pirpc.Record, client *pirpc.Client) {
	t.Helper()
	cfg.In, cfg.Out = nopCloser{io.Discard}, out
	cfg.On = func(r pirpc.Record) {
		r.Raw = slices.Clone(r.Raw)
		records = append(records, r)
	}
	client = pirpc.New(cfg)
	<-client.Done()
	return records, client
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
