package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLikeRealPi has the same conversation with the real pi and with this one,
// and compares the records: which, in what order, and with what members.
func TestLikeRealPi(t *testing.T) {
	fake := talk(start(t, "", "--session", filepath.Join(t.TempDir(), "session.jsonl")))
	real := talk(begin(t, realPi(t)))
	if diff := cmp.Diff(real, fake); diff != "" {
		t.Errorf("real and fake differ: %s", diff)
	}
}

// talk returns the shape of everything pi writes in one conversation. Each step
// waits for the one before, because the real pi works on several at once.
func talk(p *process) (shapes []string) {
	p.t.Helper()
	for _, command := range []string{"get_state", "get_last_assistant_text", "clear_queue", "abort"} {
		p.ask(command)
	}
	p.prompt("one", "steer")
	p.until("agent_settled")
	p.prompt("two", "followUp")
	p.until("agent_settled")
	for _, command := range []string{"get_session_stats", "get_last_assistant_text", "set_auto_retry", "steer", "follow_up"} {
		p.call(command, map[string]any{"message": "later", "enabled": true}, nil)
	}
	p.prompt("three", "followUp")
	p.until("agent_settled")
	p.Call(p.t.Context(), "nonsense", nil, nil)
	p.Call(p.t.Context(), "prompt", nil, nil)
	if state := p.quit(); state != "exit status 0" {
		p.t.Error(state)
	}
	for line := range strings.Lines(p.written()) {
		if s := shape([]byte(line)); !strings.Contains(s, "text_delta") {
			shapes = append(shapes, s)
		}
	}
	return shapes
}

// realPi is the pi that is installed for the tests, with a model that always
// says the same.
func realPi(t *testing.T) *exec.Cmd {
	t.Helper()
	bin, err := filepath.Abs("../../.tools/node_modules/.bin")
	if err != nil {
		t.Fatal(err)
	}
	cli, err := filepath.EvalSymlinks(filepath.Join(bin, "pi"))
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(complete))
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	for name, content := range map[string]string{
		"auth.json":   `{"test":{"type":"api_key","key":"k"}}`,
		"models.json": fmt.Sprintf(`{"providers":{"test":{"baseUrl":"%s/v1","api":"openai-completions","models":[{"id":"m"}]}}}`, srv.URL),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(bin, "node"), cli, "--mode", "rpc", "--provider", "test", "--model", "m",
		"--session", filepath.Join(dir, "session.jsonl"), "--no-approve", "--no-skills")
	cmd.Dir = dir
	cmd.Env = []string{"PI_CODING_AGENT_DIR=" + dir, "HOME=" + dir, "PI_OFFLINE=1", "PATH=/usr/bin:/bin"}
	return cmd
}

// complete is the least that pi takes for a model.
func complete(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, delta := range []string{`{"role":"assistant","content":""}`, `{"content":"Hello"}`} {
		fmt.Fprintf(w, "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":null}]}\n\n", delta)
	}
	fmt.Fprint(w, "data: {\"id\":\"c1\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
}
