package pi_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pi-mcp/agent/pi"
)

// server is a model provider that says "hi", and an MCP endpoint that refuses.
type server struct {
	*httptest.Server
	mu   sync.Mutex // protects the fields below
	seen map[string]http.Header
}

func newServer(t *testing.T) *server {
	s := &server{seen: map[string]http.Header{}}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	s.mu.Lock()
	s.seen[r.URL.Path] = r.Header
	s.mu.Unlock()
	if r.URL.Path != "/v1/chat/completions" {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, `data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"hi"}}]}

data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}

data: [DONE]

`)
}

func (s *server) header(path, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[path].Get(name)
}

// box is a small cage of bwrap, which shows an install as its Mounts say.
type box struct {
	dir  string // holds pi/ and agent_session.jsonl
	args []string
}

func newBox(t *testing.T, in *pi.Install, files map[string][]byte) *box {
	t.Helper()
	b := &box{dir: dir(t)}
	must(t, os.Mkdir(b.dir+"/pi", 0o700))
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(b.dir, "pi", name), text, 0o600))
	}
	session := pi.SessionHeader("01a1964b-2c01-70a5-b520-78f933cdafad", "/tmp", time.UnixMilli(1))
	must(t, os.WriteFile(b.dir+"/agent_session.jsonl", session, 0o600))

	b.arg("--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--clearenv")
	b.arg("--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--dir", "/home/agent")
	for _, lib := range []string{"/bin", "/lib", "/lib64"} {
		b.arg("--symlink", "usr"+lib, lib)
	}
	for _, m := range in.Mounts {
		b.arg("--ro-bind", m.Source, m.Target)
	}
	b.arg("--bind", b.dir+"/pi", "/pi-agent", "--bind", b.dir+"/agent_session.jsonl", "/agent_session.jsonl", "--chdir", "/tmp")
	b.env("HOME", "/home/agent")
	b.env("PI_CODING_AGENT_DIR", "/pi-agent")
	b.env("PI_OFFLINE", "1")
	b.env("PATH", "/usr/bin")
	return b
}

func (b *box) arg(args ...string) { b.args = append(b.args, args...) }

func (b *box) env(name, value string) { b.arg("--setenv", name, value) }

func (b *box) command(t *testing.T, argv ...string) *exec.Cmd {
	return exec.CommandContext(t.Context(), "bwrap", append(b.args, argv...)...)
}

// model is what get_state says about the model.
type model struct {
	ID, Provider  string
	ContextWindow int64
}

// turn is one conversation with the real pi in a box.
type turn struct {
	model   model
	session string
	text    string
	stderr  string
}

func (b *box) turn(t *testing.T, argv ...string) turn {
	t.Helper()
	cmd := b.command(t, argv...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	io.WriteString(in, `{"id":"1","type":"get_state"}`+"\n"+`{"id":"2","type":"prompt","message":"hello"}`+"\n")
	result := listen(t, out)
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("pi: %v: %s", err, stderr.String())
	}
	result.stderr = stderr.String()
	return result
}

// listen reads until the turn has ended or pi refuses to begin one.
func listen(t *testing.T, out io.Reader) (result turn) {
	t.Helper()
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var record struct {
			Type, Command string
			Success       bool
			Data          struct {
				Model     model
				SessionID string
			}
			Message json.RawMessage // text in some records
		}
		must(t, json.Unmarshal(lines.Bytes(), &record))
		switch {
		case record.Type == "response" && record.Command == "get_state":
			result.model, result.session = record.Data.Model, record.Data.SessionID
		case record.Type == "response" && !record.Success:
			t.Errorf("pi refused: %s", lines.Text())
			return result
		case record.Type == "message_end" && bytes.Contains(record.Message, []byte(`"role":"assistant"`)):
			result.text += string(record.Message)
		case record.Type == "agent_settled":
			return result
		}
	}
	t.Error("pi ended without settling")
	return result
}

// agent makes the files and runs one turn with them.
func agent(t *testing.T, c pi.FilesConfig, models string) turn {
	t.Helper()
	in := realPi(t)
	args, err := pi.Args(c.Provider, c.Model, "low")
	must(t, err)
	return newBox(t, in, files(t, c, models)).turn(t, append(in.Caged, args...)...)
}

// A provider that only the host's models.json knows works with its key in
// auth.json alone, whatever is in the key.
func TestCagedOwnProvider(t *testing.T) {
	s := newServer(t)
	models := `{"providers":{"mine":{"baseUrl":"` + s.URL + `/v1","api":"openai-completions","apiKey":"!echo host",
		"headers":{"X-Team":"a$$b"},"models":[{"id":"m","contextWindow":900000,"headers":{"X-M":"1"}}]}}}`
	got := agent(t, pi.FilesConfig{
		Provider: "mine", Model: "m", Key: "!sk-$HOME$$!", ContextSize: 50000,
		MCP: &pi.MCP{URL: s.URL + "/mcp", Token: "t$HOME", Timeout: time.Minute},
	}, models)
	if want := (model{"m", "mine", 60000}); got.model != want {
		t.Errorf("model %+v, want %+v", got.model, want)
	}
	if got.session != "01a1964b-2c01-70a5-b520-78f933cdafad" {
		t.Errorf("session id %q is not that of the header", got.session)
	}
	contains(t, got.text, `"hi"`)
	for _, want := range [][3]string{
		{"/v1/chat/completions", "Authorization", "Bearer !sk-$HOME$$!"},
		{"/v1/chat/completions", "X-Team", "a$b"},
		{"/v1/chat/completions", "X-M", "1"},
		{"/mcp", "Authorization", "Bearer t$HOME"},
	} {
		if value := s.header(want[0], want[1]); value != want[2] {
			t.Errorf("%s of %s is %q, want %q", want[1], want[0], value, want[2])
		}
	}
}

// A provider that pi knows, sent to another address by the host's models.json.
func TestCagedBuiltInProvider(t *testing.T) {
	s := newServer(t)
	models := `{"providers":{"deepseek":{"baseUrl":"` + s.URL + `/v1"}}}`
	got := agent(t, pi.FilesConfig{Provider: "deepseek", Model: "deepseek-flash", Key: "k", ContextSize: 200000}, models)
	if want := (model{"deepseek-flash", "deepseek", 220000}); got.model != want {
		t.Errorf("model %+v, want %+v", got.model, want)
	}
	contains(t, got.text, `"hi"`)
	if key := s.header("/v1/chat/completions", "Authorization"); key != "Bearer k" {
		t.Errorf("the provider got %q", key)
	}
}

// The token of a login works as one, and pi does not try to renew it. For this
// provider pi accepts nothing else.
func TestCagedLogin(t *testing.T) {
	in := realPi(t)
	check := []string{"auth", "check", "--provider", "openai-codex", "--json", "--credentials"}
	c := pi.FilesConfig{Provider: "openai-codex", Model: "m", Key: "!to$HOME"}
	c.OAuth = true
	out, err := newBox(t, in, files(t, c, "")).command(t, append(in.Caged, check...)...).Output()
	must(t, err)
	same(t, out, `{"status":"ready","provider":"openai-codex","authType":"oauth","credentials":"!to$HOME"}`)

	c.OAuth = false // the control
	out, _ = newBox(t, in, files(t, c, "")).command(t, append(in.Caged, check...)...).Output()
	contains(t, string(out), "not_ready")
}

// After Warm, a start with the cache read-only takes every module from it.
func TestWarm(t *testing.T) {
	in := realPi(t)
	cache := dir(t)
	start := func(bind string, argv []string) string {
		b := newBox(t, in, map[string][]byte{})
		b.arg(bind, cache, "/opt/pi-mcp/cache")
		b.env("NODE_COMPILE_CACHE", "/opt/pi-mcp/cache")
		b.env("NODE_DEBUG_NATIVE", "COMPILE_CACHE")
		cmd := b.command(t, argv...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("pi: %v: %s", err, out)
		}
		return string(out)
	}
	const missing, hit = "no such file or directory", "because cache was the same"
	args, err := pi.Args("deepseek", "deepseek-flash", "")
	must(t, err)
	agent := append(in.Caged, args...)

	if cold := start("--ro-bind", agent); strings.Contains(cold, hit) || !strings.Contains(cold, missing) {
		t.Error("the control found a warm cache")
	}
	start("--bind", in.Warm())
	warm := start("--ro-bind", agent)
	if strings.Contains(warm, missing) || strings.Count(warm, hit) < 10 {
		t.Errorf("%d modules from the cache, and some missing: %v", strings.Count(warm, hit), strings.Contains(warm, missing))
	}
}
