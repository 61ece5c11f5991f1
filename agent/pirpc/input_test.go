package pirpc_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pi-mcp/agent/pirpc"
)

func discard(pirpc.Response) {}

// What the fields say about id and type is overruled, and nothing in a message
// can end the line.
func TestCommandOnTheWire(t *testing.T) {
	talk(t, pirpc.Config{}, func(t *testing.T, p *fakePi) {
		const message = "a\nb\u2028c<&>\x00"
		fields := map[string]any{"id": "x", "type": "y", "message": message}
		if err := p.Send("prompt", fields, discard); err != nil {
			t.Fatal(err)
		}
		got := p.reads()
		if got["id"] != "1" || got["type"] != "prompt" || got["message"] != message {
			t.Errorf("pi was told %q", got)
		}
		if fields["id"] != "x" {
			t.Error("the caller's fields were changed")
		}
	})
}

func TestFieldsThatAreNoJSON(t *testing.T) {
	talk(t, pirpc.Config{}, func(t *testing.T, p *fakePi) {
		err := p.Send("prompt", map[string]any{"message": func() {}}, discard)
		if err == nil || !strings.Contains(err.Error(), "cannot encode prompt") {
			t.Errorf("err = %v", err)
		}
	})
}

// A pi that reads nothing stops the commands, not the caller; once it reads,
// they go on.
func TestPiThatDoesNotRead(t *testing.T) {
	talk(t, pirpc.Config{MaxQueued: 1000}, func(t *testing.T, p *fakePi) {
		sent := 0
		var err error
		for err == nil {
			if err = p.Send("steer", map[string]any{"message": strings.Repeat("x", 100)}, discard); err == nil {
				sent++
			}
		}
		if err != pirpc.ErrBusy || sent < 5 || sent > 10 {
			t.Errorf("after %d commands: %v", sent, err)
		}
		for range sent {
			p.reads()
		}
		synctest.Wait()
		p.asks("abort")
		if cmd := p.reads(); cmd["type"] != "abort" {
			t.Errorf("pi was told %v", cmd)
		}
	})
}

func TestOneLongCommand(t *testing.T) {
	talk(t, pirpc.Config{MaxQueued: 1000}, func(t *testing.T, p *fakePi) {
		long := map[string]any{"message": strings.Repeat("\x01", 1000)}
		if err := p.Send("prompt", long, discard); err != nil {
			t.Fatal(err)
		}
		if err := p.Send("prompt", long, discard); err != pirpc.ErrBusy {
			t.Errorf("a second one: %v", err)
		}
		p.reads()
	})
}

// F07: pi takes the end of its input as the order to exit, so it must not come
// before it is asked for, however long nothing is said.
func TestF07InputStaysOpen(t *testing.T) {
	talk(t, pirpc.Config{}, func(t *testing.T, p *fakePi) {
		p.says(`{"type":"agent_start"}`)
		time.Sleep(24 * time.Hour) // of the bubble's time
		p.asks("abort")
		if cmd := p.reads(); cmd["type"] != "abort" {
			t.Errorf("pi was told %v", cmd)
		}
		if err := p.CloseInput(); err != nil {
			t.Error(err)
		}
		if _, err := p.in.ReadByte(); err != io.EOF {
			t.Errorf("after CloseInput: %v", err)
		}
		p.says(`{"id":"1","type":"response","command":"abort","success":true}`)
		p.want("agent_start", "abort=true/<nil>")
	})
}

func TestCloseInputComesLast(t *testing.T) {
	talk(t, pirpc.Config{}, func(t *testing.T, p *fakePi) {
		p.asks("clear_queue")
		p.asks("abort")
		for range 2 { // twice does no harm
			if err := p.CloseInput(); err != nil {
				t.Error(err)
			}
		}
		if err := p.Send("prompt", nil, discard); err != pirpc.ErrClosed {
			t.Errorf("Send: %v", err)
		}
		rest, err := io.ReadAll(p.in)
		if n := strings.Count(string(rest), "\n"); n != 2 || err != nil {
			t.Errorf("pi was told %d lines: %q %v", n, rest, err)
		}
	})
}

// The end of the conversation frees a writer that pi never read from. The
// bubble would report the goroutine if it stayed.
func TestEndFreesTheWriter(t *testing.T) {
	talk(t, pirpc.Config{}, func(t *testing.T, p *fakePi) {
		p.asks("prompt")
		p.asks("abort")
		synctest.Wait()
		p.out.Close()
		<-p.Done()
		if _, err := p.in.ReadByte(); err != io.EOF {
			t.Errorf("the input is still open: %v", err)
		}
	})
}

func TestBrokenInput(t *testing.T) {
	talk(t, pirpc.Config{}, func(t *testing.T, p *fakePi) {
		broken := errors.New("broken pipe")
		p.inC.CloseWithError(broken)
		p.asks("prompt")
		synctest.Wait()
		if err := p.Send("abort", nil, discard); !errors.Is(err, broken) {
			t.Errorf("Send: %v", err)
		}
		if err := p.CloseInput(); !errors.Is(err, broken) {
			t.Errorf("CloseInput: %v", err)
		}
		p.says(`{"type":"agent_settled"}`) // pi may have more to say
		p.want("agent_settled")
	})
}
