package pirpc_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"pi-mcp/agent/pirpc"
)

// F06: nobody sits in front of an agent, and an unanswered dialog blocks its
// turn for ever.
func TestF06DialogsAreCancelled(t *testing.T) {
	for _, method := range []string{"select", "confirm", "input", "editor"} {
		t.Run(method, func(t *testing.T) {
			talk(t, pirpc.Config{}, func(t *testing.T, p *fakePi) {
				p.says(fmt.Sprintf(`{"type":"extension_ui_request","id":"7b\"14","method":%q,"title":"T","options":["A"]}`, method))
				got := p.reads()
				if len(got) != 3 || got["type"] != "extension_ui_response" || got["id"] != `7b"14` || got["cancelled"] != true {
					t.Errorf("pi was told %v", got)
				}
				p.want("extension_ui_request")
			})
		})
	}
}

func TestNewsIsNotAnswered(t *testing.T) {
	talk(t, pirpc.Config{}, func(t *testing.T, p *fakePi) {
		for _, method := range []string{"notify", "setStatus", "setWidget", "setTitle", "set_editor_text"} {
			p.says(fmt.Sprintf(`{"type":"extension_ui_request","id":"1","method":%q,"message":"select"}`, method))
			p.want("extension_ui_request")
		}
		p.asks("abort")
		if cmd := p.reads(); cmd["type"] != "abort" {
			t.Errorf("pi was told %v first", cmd)
		}
	})
}

func TestDialogOnRecord(t *testing.T) {
	var got pirpc.Record
	cfg := pirpc.Config{On: func(r pirpc.Record) { got = r }}
	talk(t, cfg, func(t *testing.T, p *fakePi) {
		p.says(`{"type":"extension_ui_request","id":"d1","method":"confirm","title":"Sure?"}`)
		p.reads()
		if got.ID != "d1" || got.Type != "extension_ui_request" {
			t.Errorf("record = %+v", got)
		}
	})
}

// Neither a list of wanted types, nor a dialog of any length, nor a pi with a
// full input keeps the answer away.
func TestDialogsAreAlwaysAnswered(t *testing.T) {
	cfg := pirpc.Config{
		Want:      func(typ string) bool { return typ == "agent_settled" },
		MaxRecord: 1000,
		MaxQueued: 1000,
	}
	talk(t, cfg, func(t *testing.T, p *fakePi) {
		for p.Send("steer", map[string]any{"message": strings.Repeat("x", 100)}, discard) == nil {
		}
		p.says(`{"type":"extension_ui_request","id":"d1","method":"editor","prefill":"` + strings.Repeat("x", 1e6) + `"}`)
		p.want()
		for cmd := p.reads(); cmd["id"] != "d1"; cmd = p.reads() {
			if cmd["type"] != "steer" {
				t.Fatalf("pi was told %v", cmd)
			}
		}
	})
}

// A pi that asks for ever and never reads is not worth its answers.
func TestDialogsWithoutEnd(t *testing.T) {
	talk(t, pirpc.Config{MaxQueued: 1000, On: func(pirpc.Record) {}}, func(t *testing.T, p *fakePi) {
		id := strings.Repeat("x", 10_000)
		for range 200 {
			fmt.Fprintf(p.out, `{"type":"extension_ui_request","id":%q,"method":"confirm"}`+"\n", id)
		}
		synctest.Wait()
		if err := p.Send("abort", nil, discard); err != pirpc.ErrBusy {
			t.Errorf("err = %v", err)
		}
	})
}
