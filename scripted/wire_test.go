package scripted_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/scripted"
)

const hello = `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`

func post(t *testing.T, s *scripted.Server, body io.Reader) *http.Response {
	t.Helper()
	resp, err := http.Post(s.URL()+"/chat/completions", "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// events returns the data of a stream's events, without the time of creation.
func events(t *testing.T, s *scripted.Server, body string) []string {
	t.Helper()
	resp := post(t, s, strings.NewReader(body))
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || got != "text/event-stream" {
		t.Fatalf("status %d, content type %q", resp.StatusCode, got)
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for event := range strings.SplitSeq(strings.TrimSuffix(string(data), "\n\n"), "\n\n") {
		text, ok := strings.CutPrefix(event, "data: ")
		if !ok {
			t.Fatalf("not an event: %q", event)
		}
		list = append(list, timeless(t, text))
	}
	return list
}

func timeless(t *testing.T, event string) string {
	if event == "[DONE]" {
		return event
	}
	var members map[string]any
	if err := json.Unmarshal([]byte(event), &members); err != nil {
		t.Fatalf("%v: %q", err, event)
	}
	delete(members, "created")
	data, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestStream(t *testing.T) {
	s := serve(t, func(scripted.Request) scripted.Reply {
		return scripted.Reply{
			Text:      "fifteen bytes..日本",
			ToolCalls: []scripted.ToolCall{{Name: "a", Arguments: `{}`}, {ID: "mine", Name: "b"}},
			Usage:     scripted.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4},
		}
	})
	want := []string{`[{"delta":{"content":"","role":"assistant"},"finish_reason":null,"index":0}]`,
		`[{"delta":{"content":"fifteen bytes..日"},"finish_reason":null,"index":0}]`,
		`[{"delta":{"content":"本"},"finish_reason":null,"index":0}]`,
		`[{"delta":{"tool_calls":[{"function":{"arguments":"","name":"a"},"id":"call_0_0","index":0,"type":"function"}]},"finish_reason":null,"index":0}]`,
		`[{"delta":{"tool_calls":[{"function":{"arguments":"{}"},"index":0}]},"finish_reason":null,"index":0}]`,
		`[{"delta":{"tool_calls":[{"function":{"arguments":"","name":"b"},"id":"mine","index":1,"type":"function"}]},"finish_reason":null,"index":0}]`,
		`[{"delta":{},"finish_reason":"tool_calls","index":0}]`,
	}
	for i := range want {
		want[i] = `{"choices":` + want[i] + `,"id":"chatcmpl-0","model":"m","object":"chat.completion.chunk"}`
	}
	usage := `{"choices":[],"id":"chatcmpl-0","model":"m","object":"chat.completion.chunk","usage":{"completion_tokens":2,` +
		`"prompt_tokens":8,"prompt_tokens_details":{"cache_write_tokens":4,"cached_tokens":3},"total_tokens":10}}`
	body := strings.Replace(hello, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1)
	if diff := cmp.Diff(append(want, usage, "[DONE]"), events(t, s, body)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got := events(t, s, hello); len(got) != len(want)+1 {
		t.Errorf("%d events without include_usage, want %d", len(got), len(want)+1)
	}
}

func TestLongTextFewEvents(t *testing.T) {
	s := serve(t, func(scripted.Request) scripted.Reply { return scripted.Reply{Text: strings.Repeat("é", 1<<20)} })
	if got := len(events(t, s, hello)); got < 100 || got > 2000 {
		t.Errorf("%d events for 2 MiB", got)
	}
}

func TestRequestParts(t *testing.T) {
	s := serve(t, func(scripted.Request) scripted.Reply { return scripted.Reply{} })
	events(t, s, `{"model":"m","stream":true,"messages":[
		{"role":"system","content":"be good"},
		{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:"}},{"type":"text","text":"b"}]},
		{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]},
		{"role":"tool","tool_call_id":"c1","content":"done"}],
		"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}]}`)
	r := s.Requests()[0]
	want := []scripted.Message{
		{Role: "system", Text: "be good"},
		{Role: "user", Text: "a\nb"},
		{Role: "assistant", ToolCalls: []scripted.ToolCall{{ID: "c1", Name: "f", Arguments: `{"x":1}`}}},
		{Role: "tool", ToolCallID: "c1", Text: "done"},
	}
	if diff := cmp.Diff(want, r.Messages); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	tools := []scripted.Tool{{Name: "f", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`)}}
	if diff := cmp.Diff(tools, r.Tools); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	if got, ok := r.ToolResult(); got != "done" || !ok {
		t.Errorf("tool result %q, %v", got, ok)
	}
	if got, want := r.AllText(), "be good\na\nb\n\ndone"; got != want {
		t.Errorf("all text %q, want %q", got, want)
	}
	if _, ok := (scripted.Request{Messages: want[:2]}).ToolResult(); ok {
		t.Error("a tool result where the user spoke last")
	}
	var none scripted.Request
	if _, ok := none.ToolResult(); ok || none.Last() != "" || none.IsCompaction() {
		t.Error("an empty request has something in it")
	}
}

func TestRefused(t *testing.T) {
	s := serve(t, func(scripted.Request) scripted.Reply { return scripted.Reply{Status: 429, Text: "slow down"} })
	large := strings.NewReader(`{"model":"` + strings.Repeat("a", 64<<20))
	for name, test := range map[string]struct {
		body   io.Reader
		status int
		reason string
	}{
		"by the script": {strings.NewReader(hello), 429, "slow down"},
		"not JSON":      {strings.NewReader("{"), 400, "not a chat completions request"},
		"not streaming": {strings.NewReader(`{"messages":[]}`), 400, "set stream to true"},
		"too large":     {large, 413, "67108864 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := post(t, s, test.body)
			data, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != test.status || !strings.Contains(string(data), test.reason) {
				t.Errorf("status %d, %s; want %d and %q", resp.StatusCode, data, test.status, test.reason)
			}
		})
	}
	resp, err := http.Get(s.URL() + "/nothing")
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != 404 {
		t.Errorf("status %d for a path that is not there", resp.StatusCode)
	}
}

func TestLatestRequestsAreKept(t *testing.T) {
	s := serve(t, func(scripted.Request) scripted.Reply { return scripted.Reply{} })
	for i := range 300 {
		events(t, s, strings.Replace(hello, "hello", strings.Repeat("x", i), 1))
	}
	seen := s.Requests()
	if len(seen) != 256 || len(seen[0].Last()) != 44 || len(seen[255].Last()) != 299 {
		t.Errorf("%d kept, from %d to %d", len(seen), len(seen[0].Last()), len(seen[len(seen)-1].Last()))
	}
}

func TestCloseEndsHeldAnswers(t *testing.T) {
	asked := make(chan struct{})
	s := serve(t, func(scripted.Request) scripted.Reply {
		asked <- struct{}{}
		return scripted.Reply{Delay: make(chan struct{})}
	})
	failed := make(chan error)
	for range 3 {
		go func() {
			_, err := http.Post(s.URL()+"/chat/completions", "application/json", strings.NewReader(hello))
			failed <- err
		}()
	}
	for range 3 {
		<-asked
	}
	s.Close()
	for range 3 {
		if err := <-failed; err == nil {
			t.Error("an answer came out of a closed server")
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
}

func TestModels(t *testing.T) {
	s := serve(t, nil)
	var file struct {
		Providers map[string]struct {
			BaseURL, API string
			Models       []struct{ ID string }
		}
	}
	if err := json.Unmarshal(s.Models(), &file); err != nil {
		t.Fatal(err)
	}
	p := file.Providers[scripted.Provider]
	if p.BaseURL != s.URL() || p.API != "openai-completions" || len(p.Models) != 1 || p.Models[0].ID != scripted.Model {
		t.Errorf("models.json says %+v", p)
	}
}
