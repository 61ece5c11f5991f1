package pirpc_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/agent/pirpc"
)

// TestRealPi holds a conversation with the pi that is installed for the tests.
// It is about the order in which pi writes its members and records, which
// everything here builds on.
func TestRealPi(t *testing.T) {
	var log strings.Builder
	settled := make(chan struct{}, 1)
	var seen []string
	cfg := pirpc.Config{Log: &log, On: func(r pirpc.Record) {
		seen = append(seen, r.Type+role(r.Raw))
		if r.Type == "agent_settled" {
			settled <- struct{}{}
		}
	}}
	c := realPi(t, cfg)

	var state struct{ SessionID string }
	if err := c.Call(t.Context(), "get_state", nil, &state); err != nil || state.SessionID == "" {
		t.Fatalf("get_state: %+v, %v", state, err)
	}
	err := c.Call(t.Context(), "nonsense", nil, nil)
	if want := (&pirpc.RefusedError{Command: "nonsense", Message: "Unknown command: nonsense"}); err == nil || err.Error() != want.Error() {
		t.Errorf("nonsense: %v", err)
	}

	var took struct{ Disposition string }
	prompt := map[string]any{"message": "a\u2028b", "streamingBehavior": "followUp"}
	if err := c.Call(t.Context(), "prompt", prompt, &took); err != nil || took.Disposition != "started" {
		t.Fatalf("prompt: %+v, %v", took, err)
	}
	<-settled
	var last struct{ Text string }
	if err := c.Call(t.Context(), "get_last_assistant_text", nil, &last); err != nil || last.Text != "c\u2028d" {
		t.Errorf("last text: %q, %v", last.Text, err)
	}
	if err := c.CloseInput(); err != nil {
		t.Error(err)
	}
	<-c.Done()

	want := []string{"agent_start", "turn_start", "message_start system", "message_end system", "message_start user", "message_end user",
		"message_start assistant", "message_end assistant", "turn_end assistant", "agent_end", "agent_settled"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
	if n := c.Invalid(); n != 0 {
		t.Errorf("%d invalid lines", n)
	}
	for _, sure := range []string{
		`{"id":"1","type":"response","command":"get_state","success":true,"data":{`,
		"\n" + `{"type":"message_update",`,
		"c\u2028d",
	} {
		if !strings.Contains(log.String(), sure) {
			t.Errorf("pi no longer writes %q", sure)
		}
	}
}

// realPi starts the real thing with a provider that always says the same. It is
// gone when the test is.
func realPi(t *testing.T, cfg pirpc.Config) *pirpc.Client {
	t.Helper()
	bin, err := filepath.Abs("../../.tools/node_modules/.bin")
	if err != nil {
		t.Fatal(err)
	}
	cli, err := filepath.EvalSymlinks(filepath.Join(bin, "pi"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	srv := httptest.NewServer(http.HandlerFunc(complete))
	t.Cleanup(srv.Close)
	write(t, dir, "auth.json", `{"test":{"type":"api_key","key":"k"}}`)
	write(t, dir, "models.json", fmt.Sprintf(`{"providers":{"test":{"baseUrl":"%s/v1","api":"openai-completions","models":[{"id":"m"}]}}}`, srv.URL))
	write(t, dir, "session.jsonl", "")

	cmd := exec.Command(filepath.Join(bin, "node"), cli, "--mode", "rpc", "--provider", "test", "--model", "m",
		"--session", filepath.Join(dir, "session.jsonl"), "--no-approve", "--no-skills")
	cmd.Dir = dir
	cmd.Env = []string{"PI_CODING_AGENT_DIR=" + dir, "HOME=" + dir, "PI_OFFLINE=1", "PATH=/usr/bin:/bin"}
	cmd.Stderr = t.Output()
	if cfg.In, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if cfg.Out, err = cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := pirpc.New(cfg)
	t.Cleanup(func() {
		if t.Failed() {
			cmd.Process.Kill()
		}
		<-c.Done()
		if err := cmd.Wait(); err != nil && !t.Failed() {
			t.Errorf("pi: %v", err)
		}
	})
	return c
}

// complete is the least that pi takes for a model.
func complete(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, delta := range []string{`{"role":"assistant","content":""}`, `{"content":"c\u2028"}`, `{"content":"d"}`} {
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":null}]}\n\n", delta)
	}
	fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}

// role returns " user" for a record about a user's message, and so on.
func role(raw []byte) string {
	var r struct{ Message struct{ Role string } }
	if json.Unmarshal(raw, &r) != nil || r.Message.Role == "" {
		return ""
	}
	return " " + r.Message.Role
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
