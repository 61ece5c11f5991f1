package scripted_test

import (
	"strings"
	"testing"

	"pi-mcp/scripted"
)

func serve(t *testing.T, script func(scripted.Request) scripted.Reply) *scripted.Server {
	t.Helper()
	s := scripted.New(scripted.Config{Script: script})
	if err := s.Serve(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestPiText(t *testing.T) {
	s := serve(t, func(r scripted.Request) scripted.Reply {
		return scripted.Reply{Text: "you said " + r.Last() + ", 日本語 and a few words more"}
	})
	p := startPi(t, s, `{}`)
	if got, want := p.ask("héllo"), "you said héllo, 日本語 and a few words more"; got != want {
		t.Errorf("pi has %q, want %q", got, want)
	}
	seen := s.Requests()
	if len(seen) != 1 {
		t.Fatalf("%d requests were recorded, want 1", len(seen))
	}
	if r := seen[0]; r.Model != scripted.Model || r.Key != "test-key" || len(r.Tools) == 0 || r.IsCompaction() {
		t.Errorf("recorded model %q, key %q, %d tools, compaction %v", r.Model, r.Key, len(r.Tools), r.IsCompaction())
	}
}

func TestPiToolCall(t *testing.T) {
	s := serve(t, func(r scripted.Request) scripted.Reply {
		if result, ok := r.ToolResult(); ok {
			return scripted.Reply{Text: "bash said " + result}
		}
		return scripted.Reply{
			Text:      "let me look",
			ToolCalls: []scripted.ToolCall{scripted.Call("bash", map[string]any{"command": "echo $((6*7)) '\"quoted\"'"})},
		}
	})
	p := startPi(t, s, `{}`)
	if got, want := strings.TrimSpace(p.ask("go")), `bash said 42 "quoted"`; got != want {
		t.Errorf("pi has %q, want %q", got, want)
	}
	if last := s.Requests()[1]; last.Last() != "go" || !strings.Contains(last.AllText(), "let me look") {
		t.Errorf("the second request has %q last, and in all %q", last.Last(), last.AllText())
	}
}

func TestPiUsage(t *testing.T) {
	s := serve(t, func(scripted.Request) scripted.Reply {
		return scripted.Reply{Text: "ok", Usage: scripted.Usage{Input: 1000, Output: 20, CacheRead: 300, CacheWrite: 4}}
	})
	p := startPi(t, s, `{}`)
	p.ask("one")
	stats := p.call("get_session_stats", nil).Data
	if got := stats.Tokens; got.Input != 1000 || got.Output != 20 || got.CacheRead != 300 || got.CacheWrite != 4 || got.Total != 1324 {
		t.Errorf("pi counts %+v", got)
	}
	if stats.Cost <= 0 {
		t.Errorf("pi counts a cost of %v", stats.Cost)
	}
}

// Without numbers from the script the tokens grow with the conversation.
func TestPiUsageByLength(t *testing.T) {
	s := serve(t, func(scripted.Request) scripted.Reply { return scripted.Reply{Text: "ok"} })
	p := startPi(t, s, `{}`)
	p.ask(strings.Repeat("word ", 4000))
	if got := p.call("get_session_stats", nil).Data.Tokens.Input; got < 5000 {
		t.Errorf("pi counts %d tokens for 20,000 bytes", got)
	}
}

func TestPiError(t *testing.T) {
	s := serve(t, func(scripted.Request) scripted.Reply {
		return scripted.Reply{Status: 503, Text: "the model sleeps"}
	})
	p := startPi(t, s, `{"retry":{"enabled":true,"maxRetries":2,"baseDelayMs":1}}`)
	p.send("prompt", map[string]any{"message": "one"})
	retry := p.until("auto_retry_start", func(r record) bool { return r.Type == "auto_retry_start" })
	if !strings.Contains(retry.ErrorMessage, "the model sleeps") {
		t.Errorf("pi tries again because of %q", retry.ErrorMessage)
	}
	p.settled()
	if got := len(s.Requests()); got != 3 {
		t.Errorf("pi asked %d times, want once and two retries", got)
	}
}

func TestPiHeldAnswer(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	s := serve(t, func(scripted.Request) scripted.Reply {
		close(asked)
		return scripted.Reply{Text: "at last", Delay: release}
	})
	p := startPi(t, s, `{}`)
	p.send("prompt", map[string]any{"message": "one"})
	<-asked
	p.call("get_state", nil) // pi is alive, and in the middle of the turn
	close(release)
	p.settled()
	if got := p.call("get_last_assistant_text", nil).Data.Text; got != "at last" {
		t.Errorf("pi has %q", got)
	}
}

func TestPiAbortsHeldAnswer(t *testing.T) {
	asked := make(chan struct{})
	s := serve(t, func(scripted.Request) scripted.Reply {
		close(asked)
		return scripted.Reply{Delay: make(chan struct{})}
	})
	p := startPi(t, s, `{}`)
	p.send("prompt", map[string]any{"message": "one"})
	<-asked
	p.call("abort", nil)
}

// The two forms of summary: of whole turns, and of the first part of a turn.
func TestPiCompaction(t *testing.T) {
	s := serve(t, func(r scripted.Request) scripted.Reply {
		if r.IsCompaction() {
			return scripted.Reply{Text: "SUMMARY"}
		}
		return scripted.Reply{Text: "answer to " + r.Last()}
	})
	p := startPi(t, s, `{"compaction":{"keepRecentTokens":10}}`)
	p.ask("first")
	p.ask(strings.Repeat("second ", 50))
	if got := p.call("compact", nil).Data.Summary; strings.Count(got, "SUMMARY") != 2 {
		t.Errorf("pi has the summary %q, want one of the past and one of the last turn's start", got)
	}
	if p.ask("third"); !strings.Contains(s.Requests()[4].AllText(), "SUMMARY") {
		t.Error("the turn after the compaction does not start from the summary")
	}
}
