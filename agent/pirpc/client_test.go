package pirpc_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"pi-mcp/agent/pirpc"
)

func TestAnswersAmongEvents(t *testing.T) {
	talk(t, pirpc.Config{}, func(t *testing.T, p *fakePi) {
		p.asks("prompt")
		if cmd := p.reads(); cmd["id"] != "1" || cmd["type"] != "prompt" {
			t.Errorf("pi was told %v", cmd)
		}
		p.says(
			`{"type":"agent_start"}`,
			`{"type":"agent_settled","aborted":false}`,
			`{"id":"1","type":"response","command":"prompt","success":true,"data":{"disposition":"started"}}`,
			`{"type":"queue_update","steering":[],"followUp":[]}`,
		)
		p.want("agent_start", "agent_settled", "prompt=true/<nil>", "queue_update")
	})
}

func TestAnswersInAnyOrder(t *testing.T) {
	talk(t, pirpc.Config{}, func(t *testing.T, p *fakePi) {
		for _, c := range []string{"prompt", "get_state", "abort"} {
			p.asks(c)
			p.reads()
		}
		p.says(
			`{"id":"2","type":"response","command":"get_state","success":true}`,
			`{"id":"3","type":"response","command":"abort","success":true}`,
			`{"id":"1","type":"response","command":"prompt","success":false,"error":"busy"}`,
		)
		p.want("get_state=true/<nil>", "abort=true/<nil>", "prompt=false/<nil>")
	})
}

func TestAnswerOnlyOnce(t *testing.T) {
	const answer = `{"id":"1","type":"response","command":"abort","success":true}`
	talk(t, pirpc.Config{}, func(t *testing.T, p *fakePi) {
		p.asks("abort")
		p.reads()
		p.says(answer, answer)
		p.want("abort=true/<nil>", "response")
	})
}

func TestResponsesOfNobody(t *testing.T) {
	talk(t, pirpc.Config{}, func(t *testing.T, p *fakePi) {
		p.says(
			`{"type":"response","command":"parse","success":false,"error":"Failed to parse command"}`,
			`{"id":"99","type":"response","command":"abort","success":true}`,
			`{"id":1,"type":"response","command":"abort","success":true}`,
		)
		p.want("response", "response", "response")
	})
}

func TestCallDecodes(t *testing.T) {
	talk(t, pirpc.Config{}, func(t *testing.T, p *fakePi) {
		go func() {
			p.reads()
			p.says(`{"id":"1","type":"response","command":"get_state","success":true,"data":{"sessionId":"s\u2028<"}}`)
		}()
		var state struct{ SessionID string }
		if err := p.Call(t.Context(), "get_state", nil, &state); err != nil {
			t.Fatal(err)
		}
		if state.SessionID != "s\u2028<" {
			t.Errorf("session = %q", state.SessionID)
		}
	})
}

func TestCallErrors(t *testing.T) {
	for name, tc := range map[string]struct{ line, want string }{
		"refused":   {`{"id":"1","type":"response","command":"prompt","success":false,"error":"No API key found"}`, "pi refused prompt: No API key found"},
		"bad data":  {`{"id":"1","type":"response","command":"prompt","success":true,"data":7}`, "cannot decode pi's answer to prompt"},
		"too long":  {`{"id":"1","type":"response","command":"prompt","success":true,"data":"` + strings.Repeat("x", 4096) + `"}`, "prompt: pi's answer is too long"},
		"pi's gone": {``, "prompt: the conversation with pi is over"},
	} {
		t.Run(name, func(t *testing.T) {
			talk(t, pirpc.Config{MaxRecord: 1024}, func(t *testing.T, p *fakePi) {
				go func() {
					p.reads()
					p.says(tc.line)
					p.out.Close()
				}()
				err := p.Call(t.Context(), "prompt", nil, new(string))
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("err = %v, want %q", err, tc.want)
				}
			})
		})
	}
}

func TestRefusalHasItsType(t *testing.T) {
	talk(t, pirpc.Config{}, func(t *testing.T, p *fakePi) {
		go func() {
			p.reads()
			p.says(`{"id":"1","type":"response","command":"prompt","success":false,"error":"busy"}`)
		}()
		var refused *pirpc.RefusedError
		if err := p.Call(t.Context(), "prompt", nil, nil); !errors.As(err, &refused) || refused.Message != "busy" {
			t.Errorf("err = %v", err)
		}
	})
}

// A pi that is alive and says nothing must not hold its caller.
func TestSilentPi(t *testing.T) {
	talk(t, pirpc.Config{}, func(t *testing.T, p *fakePi) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // of the bubble's time
		defer cancel()
		if err := p.Call(ctx, "get_state", nil, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v", err)
		}
		p.reads()
		p.says(`{"id":"1","type":"response","command":"get_state","success":true}`)
		p.want("response")
	})
}

func TestEndAnswersEverything(t *testing.T) {
	talk(t, pirpc.Config{}, func(t *testing.T, p *fakePi) {
		for _, c := range []string{"a", "b", "c"} {
			p.asks(c)
			p.reads()
		}
		p.says(`{"id":"2","type":"response","command":"b","success":true}`)
		p.out.Close()
		<-p.Done()
		p.want("b=true/<nil>", "a=false/"+pirpc.ErrClosed.Error(), "c=false/"+pirpc.ErrClosed.Error())

		if err := p.Err(); err != pirpc.ErrClosed {
			t.Errorf("Err() = %v", err)
		}
		err := p.Send("d", nil, func(pirpc.Response) { t.Error("answered although Send failed") })
		if !errors.Is(err, pirpc.ErrClosed) {
			t.Errorf("Send: %v", err)
		}
	})
}

func TestReadError(t *testing.T) {
	talk(t, pirpc.Config{}, func(t *testing.T, p *fakePi) {
		if err := p.Err(); err != nil {
			t.Errorf("Err() = %v before the end", err)
		}
		p.asks("prompt")
		p.out.CloseWithError(io.ErrNoProgress)
		<-p.Done()
		if err := p.Err(); !errors.Is(err, io.ErrNoProgress) || errors.Is(err, pirpc.ErrClosed) {
			t.Errorf("Err() = %v", err)
		}
		p.want("prompt=false/cannot read pi's output: " + io.ErrNoProgress.Error())
	})
}

// A callback may send: it runs without any lock held.
func TestSendFromCallbacks(t *testing.T) {
	var p *fakePi
	cfg := pirpc.Config{On: func(r pirpc.Record) { p.asks(r.Type) }}
	talk(t, cfg, func(t *testing.T, q *fakePi) {
		p = q
		p.says(`{"type":"agent_settled"}`)
		if cmd := p.reads(); cmd["type"] != "agent_settled" {
			t.Errorf("pi was told %v", cmd)
		}
	})
}
