package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	if out, _, state := output(t, install(t, nil), "--version"); out != "1.6.0\n" || !state.Success() {
		t.Errorf("%q, %v", out, state)
	}
}

func TestAuthCheck(t *testing.T) {
	pi := install(t, map[string]string{
		"auth-none.json": `{"status":"not_ready","provider":"none","reason":"credentials_not_configured"}`,
		"auth-odd.json":  `{"status":"invalid","provider":"odd"}`,
	})
	for provider, want := range map[string]string{
		"deepseek": `{"status":"ready","provider":"deepseek","authType":"api_key","credentials":"fake-key"}` + "\nexit status 0",
		"none":     `{"status":"not_ready","provider":"none","reason":"credentials_not_configured"}` + "\nexit status 1",
		"odd":      `{"status":"invalid","provider":"odd"}` + "\nexit status 2",
	} {
		out, _, state := output(t, pi, "auth", "check", "--provider", provider, "--json", "--credentials")
		if got := out + state.String(); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", provider, got, want)
		}
	}
}

func TestDefaultTurn(t *testing.T) {
	p := start(t, "")
	if d := p.prompt("a\u2028b", "followUp"); d != "started" {
		t.Error(d)
	}
	wantOrder(t, p.until("agent_settled"), `
		agent_start
		turn_start
		message_start system
		message_end system
		message_start user: a`+"\u2028"+`b
		message_end user: a`+"\u2028"+`b
		message_start assistant:  pending
		message_end assistant: You said: a`+"\u2028"+`b stop
		turn_end assistant: You said: a`+"\u2028"+`b stop
		agent_end
		agent_settled`)
	if !strings.Contains(p.written(), "a\u2028b") {
		t.Error("U+2028 is not raw")
	}
	if text := p.ask("get_last_assistant_text")["text"]; text != "You said: a\u2028b" {
		t.Error(text)
	}
	stats := p.ask("get_session_stats")
	if fmt.Sprint(stats["userMessages"], stats["cost"]) != "1 0.25" {
		t.Error(stats)
	}
}

// Whoever has read the end of a turn finds pi idle.
func TestSettledMeansIdle(t *testing.T) {
	p := start(t, "")
	for i := range 200 {
		message := "plain"
		if i%2 == 0 {
			message = `![{"record":{"type":"agent_start"}},{"record":{"type":"agent_settled","aborted":false}}]`
		}
		if d := p.prompt(message, "steer"); d != "started" {
			t.Fatalf("prompt %d: %s", i, d)
		}
		p.until("agent_settled")
	}
}

func TestQueue(t *testing.T) {
	file := filepath.Join(t.TempDir(), "go")
	p := start(t, "")
	p.prompt(`![{"turn":"one two","hold":"`+file+`"}]`, "steer")
	p.says("text_delta")
	if d := p.prompt("later", "followUp"); d != "queued" {
		t.Error(d)
	}
	if d := p.prompt("now", "steer"); d != "queued" {
		t.Error(d)
	}
	p.call("follow_up", map[string]any{"message": `![{"turn":"played"}]`}, nil)
	err := p.Call(t.Context(), "prompt", map[string]any{"message": "x"}, nil)
	if err == nil || !strings.Contains(err.Error(), "Agent is already processing") {
		t.Error(err)
	}
	if n := p.ask("get_state")["pendingMessageCount"]; n != 3.0 {
		t.Error(n)
	}
	write(t, file, "")
	p.until("queue_update")
	p.until("queue_update")
	p.until("turn_end")
	wantOrder(t, p.until("agent_settled"), `
		turn_start
		queue_update [] [later ![{"turn":"played"}]]
		message_start user: now
		message_end user: now
		message_start assistant:  pending
		message_end assistant: You said: now stop
		turn_end assistant: You said: now stop
		turn_start
		queue_update [] [![{"turn":"played"}]]
		message_start user: later
		message_end user: later
		message_start assistant:  pending
		message_end assistant: You said: later stop
		turn_end assistant: You said: later stop
		agent_end
		agent_settled`)
	if s := strings.Join(p.until("agent_settled"), "\n"); !strings.Contains(s, "message_end assistant: played stop") {
		t.Error(s)
	}
}

func TestClearQueue(t *testing.T) {
	p := start(t, "")
	p.prompt(`![{"wait_file":"/nonexistent"}]`, "steer")
	p.prompt("a", "steer")
	p.prompt("b", "followUp")
	if got := fmt.Sprint(p.ask("clear_queue")); got != "map[followUp:[b] steering:[a]]" {
		t.Error(got)
	}
	if n := p.ask("get_state")["pendingMessageCount"]; n != 0.0 {
		t.Error(n)
	}
}

// An abort in the middle of a turn; what was queued joins the next prompt.
func TestAbort(t *testing.T) {
	p := start(t, "")
	p.prompt(`![{"turn":"one two three","hold":"/nonexistent"}]`, "steer")
	p.says("text_delta")
	p.prompt("left over", "steer")
	p.until("queue_update")
	p.ask("abort")
	wantOrder(t, p.until("agent_settled"), `
		message_end assistant: one  aborted
		turn_end assistant: one  aborted
		agent_end
		agent_settled aborted`)
	if s := p.ask("get_state"); s["isStreaming"] != false || s["pendingMessageCount"] != 1.0 {
		t.Error(s)
	}
	p.prompt("next", "steer")
	seen := strings.Join(p.until("agent_settled"), "\n")
	if !strings.Contains(seen, "message_end user: next\nqueue_update [] []\nmessage_start user: left over") {
		t.Error(seen)
	}
}

// What a script leaves open is closed by an abort, and an idle pi answers one
// without a word.
func TestAbortOfAScript(t *testing.T) {
	p := start(t, "")
	p.prompt(`![{"record":{"type":"agent_start"}},{"delay_ms":100000000}]`, "steer")
	p.until("agent_start")
	p.ask("abort")
	wantOrder(t, p.until("agent_settled"), "agent_end\nagent_settled aborted")
	p.ask("abort")
	p.prompt(`![{"record":{"type":"end"}}]`, "steer")
	wantOrder(t, p.until("end"), "end")
}

// The end of the input in the middle of a turn: the session has it, the output
// does not.
func TestEndInATurn(t *testing.T) {
	session := filepath.Join(t.TempDir(), "session.jsonl")
	p := start(t, "", "--session", session)
	p.prompt(`![{"turn":"one two","hold":"/nonexistent"}]`, "steer")
	p.says("text_delta")
	if state := p.quit(); state != "exit status 0" {
		t.Error(state)
	}
	if strings.Contains(p.written(), "agent_settled") {
		t.Error("it settled")
	}
	if data, err := os.ReadFile(session); err != nil || !strings.Contains(string(data), `"stopReason":"aborted"`) {
		t.Errorf("%v: %s", err, data)
	}
}

func TestHandled(t *testing.T) {
	p := start(t, "")
	if d := p.prompt("/mcp", "steer"); d != "handled" {
		t.Error(d)
	}
	if streaming := p.ask("get_state")["isStreaming"]; streaming != false {
		t.Error("busy")
	}
}

func TestSession(t *testing.T) {
	cwd := t.TempDir()
	session := filepath.Join(cwd, "session.jsonl")
	write(t, session, fmt.Sprintf(`{"type":"session","version":3,"id":"ours","timestamp":"","cwd":%q}`+"\n", cwd))
	p := start(t, "", "--session", session)
	p.prompt("one", "steer")
	p.until("agent_settled")
	p.quit()

	data, err := os.ReadFile(session)
	if err != nil {
		t.Fatal(err)
	}
	write(t, session, string(data)+`{"type":"message","id":"`) // killed in the middle
	p = start(t, "", "--session", session)
	if id := p.ask("get_state")["sessionId"]; id != "ours" {
		t.Error(id)
	}
	if text := p.ask("get_last_assistant_text")["text"]; text != "You said: one" {
		t.Error(text)
	}
	p.prompt("two", "steer")
	if s := strings.Join(p.until("agent_settled"), "\n"); strings.Contains(s, "system") {
		t.Error(s)
	}
	if n := p.ask("get_session_stats")["userMessages"]; n != 2.0 {
		t.Error(n)
	}
}

func TestBadSession(t *testing.T) {
	for content, want := range map[string]string{
		"garbage\n": "not a valid pi session",
		`{"type":"session","id":"x","cwd":"/nonexistent"}` + "\n": "directory does not exist: /nonexistent",
	} {
		session := filepath.Join(t.TempDir(), "session.jsonl")
		write(t, session, content)
		_, stderr, state := output(t, install(t, nil), "--mode", "rpc", "--session", session)
		if state.ExitCode() != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%v: %s", state, stderr)
		}
	}
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
