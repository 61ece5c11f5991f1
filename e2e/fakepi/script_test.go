package main_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pi-mcp/agent/pirpc"
)

// play runs pi with actions to play at its start, and no input.
func play(t *testing.T, actions string) (stdout, stderr string, state *os.ProcessState) {
	t.Helper()
	pi := install(t, map[string]string{"m.json": `{"start":[` + actions + `]}`})
	return output(t, pi, "--mode", "rpc", "--model", "m")
}

func TestActionsThatWrite(t *testing.T) {
	raw := "a\u2028\x00\xff"
	bytes := base64.StdEncoding.EncodeToString([]byte(raw))
	for actions, want := range map[string]string{
		`{"write":"not json"}`:                           "not json\n",
		`{"write":""},{"write":"x"}`:                     "\nx\n",
		`{"record":{"z":1,"type":"a<","b":["\u2028"]}}`:  "{\"z\":1,\"type\":\"a<\",\"b\":[\"\u2028\"]}\n",
		`{"bytes":"` + bytes + `"}`:                      raw,
		`{"bytes":"` + bytes + `","split":true}`:         raw,
		`{"line":5,"type":"agent_end"}`:                  `{"type":"agent_end","text":"xxxxx"}` + "\n",
		`{"delay_ms":1},{"write":"a"}`:                   "a\n",
		`{"respond":{"data":1}},{"write":"no question"}`: "no question\n",
	} {
		if out, stderr, state := play(t, actions); out != want || stderr != "" || !state.Success() {
			t.Errorf("%s: %q %q %v", actions, out, stderr, state)
		}
	}
}

func TestActionsInBulk(t *testing.T) {
	out, stderr, _ := play(t, `{"flood":1000000},{"line":3000000,"type":"x"},{"stderr":"warn\n","repeat":100000}`)
	if stderr != strings.Repeat("warn\n", 100000) {
		t.Errorf("%d bytes on stderr", len(stderr))
	}
	lines := strings.SplitAfter(out, "\n")
	last := lines[len(lines)-2]
	if flood := len(out) - len(last); flood < 1e6 || flood > 1.2e6 || len(last) < 3e6 {
		t.Errorf("flood of %d bytes, line of %d", flood, len(last))
	}
	if !strings.HasPrefix(lines[7], `{"type":"message_update","usage":{`) {
		t.Error(lines[7])
	}
}

func TestActionsThatEnd(t *testing.T) {
	for actions, want := range map[string]string{
		`{"exit":0},{"write":"x"}`:         "exit status 0",
		`{"exit":7}`:                       "exit status 7",
		`{"signal":"KILL"}`:                "signal: killed",
		`{"signal":"TERM"},{"hang":true}`:  "exit status 143",
		`{"spawn":["/nonexistent"]}`:       "exit status 1",
		`{"file":"/nonexistent/x"}`:        "exit status 1",
		`{"misspelt":1}`:                   "exit status 1",
		`{"write":"x"},{"exit":3}`:         "exit status 3",
		`{"stderr":"reason\n"},{"exit":0}`: "exit status 0",
	} {
		_, stderr, state := play(t, actions)
		if got := state.String(); got != want {
			t.Errorf("%s: %s, %.200s", actions, got, stderr)
		}
		if state.ExitCode() == 1 && !strings.HasPrefix(stderr, "Error: ") {
			t.Errorf("%s: no reason but %q", actions, stderr)
		}
	}
}

func TestActionsOnFiles(t *testing.T) {
	dir := t.TempDir()
	sid := filepath.Join(dir, "sid")
	out, _, _ := play(t, fmt.Sprintf(`{"file":"%[1]s/a","content":"b"},{"touch":"%[1]s/c"},
		{"spawn":["/bin/sh","-c","ps -o sid= -p $$ > %[2]s.new; mv %[2]s.new %[2]s"]},{"wait_file":"%[2]s"},{"write":"done"}`, dir, sid))
	if out != "done\n" {
		t.Error(out)
	}
	for name, want := range map[string]string{"a": "b", "c": ""} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != want || err != nil {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	ours, err := os.ReadFile(sid)
	own, _ := syscall.Getpgid(0)
	if err != nil || strings.TrimSpace(string(ours)) == fmt.Sprint(own) {
		t.Errorf("session %s, %v", ours, err)
	}
}

func TestCommandsOfAScript(t *testing.T) {
	file := filepath.Join(t.TempDir(), "go")
	p := start(t, script(map[string]string{
		"get_state":           `[{"wait_file":"` + file + `"},{"default":true}]`,
		"get_session_stats":   `[{"respond":{"success":false,"error":"no stats"}},{"respond":{}},{"record":{"type":"extra"}}]`,
		"get_messages":        `[{"line":100000,"type":"response"}]`,
		"set_thinking_level":  `[]`,
		"get_available_model": `[{"respond":{"data":{"models":[]}}}]`,
	}))
	state := make(chan pirpc.Response, 1)
	if err := p.Send("get_state", nil, func(r pirpc.Response) { state <- r }); err != nil {
		t.Fatal(err)
	}
	write(t, file, "")
	if r := <-state; !r.Success {
		t.Error(r)
	}
	if err := p.Call(t.Context(), "get_session_stats", nil, nil); err == nil || !strings.Contains(err.Error(), "no stats") {
		t.Error(err)
	}
	wantOrder(t, p.until("extra"), "extra")
	if text := p.ask("get_messages")["text"].(string); len(text) != 100000 {
		t.Errorf("%d bytes", len(text))
	}
	if data := p.ask("get_available_model"); fmt.Sprint(data) != "map[models:[]]" {
		t.Error(data)
	}
	p.Send("set_thinking_level", nil, func(r pirpc.Response) { state <- r })
	p.quit()
	if r := <-state; r.Err != pirpc.ErrClosed {
		t.Errorf("answered: %+v", r)
	}
}

// A script for every prompt, and one in the message, both leave pi able to
// handle other commands meanwhile.
func TestPromptsOfAScript(t *testing.T) {
	file := filepath.Join(t.TempDir(), "go")
	p := start(t, script(map[string]string{"prompt": `[{"respond":{}},{"wait_file":"` + file + `"},{"default":true}]`}))
	if d := p.prompt("hello", "steer"); d != "started" {
		t.Error(d)
	}
	if streaming := p.ask("get_state")["isStreaming"]; streaming != true {
		t.Error("idle")
	}
	write(t, file, "")
	if s := strings.Join(p.until("agent_settled"), "\n"); !strings.Contains(s, "message_end assistant: You said: hello stop") {
		t.Error(s)
	}
	if streaming := p.ask("get_state")["isStreaming"]; streaming != false {
		t.Error("busy")
	}
}

func TestScriptInAMessage(t *testing.T) {
	p := start(t, "")
	if d := p.prompt(`![{"respond":{"data":{"disposition":"handled"}}}]`, "steer"); d != "handled" {
		t.Error(d)
	}
	for message, want := range map[string]string{
		`![{"respond":{"success":false,"error":"No API key found"}}]`: "No API key found",
		`![{"misspelt":1}]`: "bad script in the message",
		`![`:                "bad script in the message",
	} {
		err := p.Call(t.Context(), "prompt", map[string]any{"message": message, "streamingBehavior": "steer"}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", message, err)
		}
	}
	if d := p.prompt(`!exclamation`, "steer"); d != "started" {
		t.Error(d)
	}
	p.until("agent_settled")
}

// F03, as a script: the provider fails, pi tries again, and settles once.
func TestF03Retry(t *testing.T) {
	p := start(t, "")
	p.prompt(`![{"record":{"type":"agent_start"}},{"record":{"type":"agent_end","messages":[],"willRetry":true}},
		{"record":{"type":"auto_retry_start","attempt":1,"maxAttempts":3,"delayMs":2000,"errorMessage":"529"}},
		{"delay_ms":5},{"turn":"at last"}]`, "steer")
	seen := strings.Join(p.until("agent_settled"), "\n")
	if !strings.HasPrefix(seen, "agent_start\nagent_end\nauto_retry_start\nagent_start\nturn_start\n") {
		t.Error(seen)
	}
}

// F06, as a script: each dialog blocks the turn until it is answered.
func TestF06Dialogs(t *testing.T) {
	p := start(t, "")
	p.prompt(`![{"ask":{"method":"select","title":"T","options":["A"]}},{"ask":{"method":"confirm"}},
		{"ask":{"method":"input"}},{"ask":{"method":"editor"}},{"turn":"done"}]`, "steer")
	wantOrder(t, p.until("agent_start"), `
		extension_ui_request select
		extension_ui_request confirm
		extension_ui_request input
		extension_ui_request editor
		agent_start`)
	p.prompt(`![{"ask":{"method":"strange"}}]`, "followUp")
	p.until("extension_ui_request")
	p.ask("abort") // an unanswered one ends too
}

func TestHang(t *testing.T) {
	p := start(t, script(map[string]string{"get_state": `[{"hang":true}]`}))
	answered := make(chan pirpc.Response, 2)
	for _, command := range []string{"get_state", "abort"} {
		if err := p.Send(command, nil, func(r pirpc.Response) { answered <- r }); err != nil {
			t.Fatal(err)
		}
	}
	p.CloseInput()
	p.cmd.Process.Kill()
	if state := p.exit(); state != "signal: killed" {
		t.Error(state)
	}
	for range 2 {
		if r := <-answered; r.Err != pirpc.ErrClosed {
			t.Errorf("answered: %+v", r)
		}
	}
}

// Pi has seen the end of its input, and still lives.
func TestIgnoreEOF(t *testing.T) {
	p := start(t, `{"start":[{"ignore_eof":true}],"eof":[{"record":{"type":"eof"}}]}`)
	p.ask("get_state")
	p.CloseInput()
	p.until("eof")
	p.cmd.Process.Signal(syscall.SIGHUP)
	if state := p.exit(); state != "exit status 129" {
		t.Error(state)
	}
}

// F15, as a script: pi is killed in the middle of a turn.
func TestF15KilledInATurn(t *testing.T) {
	p := start(t, "")
	p.prompt(`![{"record":{"type":"agent_start"}},{"signal":"KILL"}]`, "steer")
	p.until("agent_start")
	if state := p.exit(); state != "signal: killed" {
		t.Error(state)
	}
}
