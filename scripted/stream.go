package scripted

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"
)

// Real providers send a token or a few in a chunk. A long text is cut into
// larger pieces: the number of events is bounded, so that a test with a MiB of
// text is not a test of how fast events are written.
const (
	pieceBytes = 16
	maxPieces  = 1024
)

// A chunk is one event of the stream, with the members that clients look at.
type chunk struct {
	ID      string     `json:"id"`
	Object  string     `json:"object"`
	Created int64      `json:"created"`
	Model   string     `json:"model"`
	Choices []choice   `json:"choices"` // empty in the chunk with the usage
	Usage   *wireUsage `json:"usage,omitempty"`
}

type choice struct {
	Index        int     `json:"index"`
	Delta        delta   `json:"delta"`
	FinishReason *string `json:"finish_reason"`
}

type delta struct {
	Role      string         `json:"role,omitempty"`
	Content   *string        `json:"content,omitempty"`
	ToolCalls []wireToolCall `json:"tool_calls,omitempty"`
}

// wireToolCall is whole in requests. In a stream the first chunk of a call has
// the id and the name and the later ones more of the arguments.
type wireToolCall struct {
	Index    int          `json:"index"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function wireFunction `json:"function"`
}

type wireFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type wireUsage struct {
	Prompt     int64         `json:"prompt_tokens"`
	Completion int64         `json:"completion_tokens"`
	Total      int64         `json:"total_tokens"`
	Details    promptDetails `json:"prompt_tokens_details"`
}

type promptDetails struct {
	Cached  int64 `json:"cached_tokens"`
	Written int64 `json:"cache_write_tokens"` // not OpenAI's, but pi and OpenRouter have it
}

// A stream writes one answer as server-sent events. Errors of the connection
// are not looked at: the client is gone then, and the writes end by themselves.
type stream struct {
	w      http.ResponseWriter
	number int // of the request, in the life of the server
	req    Request
	base   chunk
}

func newStream(w http.ResponseWriter, number int, req Request) *stream {
	return &stream{w: w, number: number, req: req, base: chunk{
		ID:      fmt.Sprintf("chatcmpl-%d", number),
		Object:  "chat.completion.chunk",
		Created: time.Now().Unix(),
		Model:   req.Model,
		Choices: []choice{},
	}}
}

func (s *stream) send(r Reply) {
	s.w.Header().Set("Content-Type", "text/event-stream")
	s.w.Header().Set("Cache-Control", "no-cache")
	empty := ""
	s.delta(delta{Role: "assistant", Content: &empty})
	for _, piece := range pieces(r.Text) {
		s.delta(delta{Content: &piece})
	}
	finish := "stop"
	for i, c := range r.ToolCalls {
		s.call(i, c)
		finish = "tool_calls"
	}
	s.choice(choice{FinishReason: &finish})
	if s.req.usage {
		s.usage(r.usage(s.req))
	}
	s.event([]byte("[DONE]"))
}

func (s *stream) call(index int, c ToolCall) {
	if c.ID == "" {
		c.ID = fmt.Sprintf("call_%d_%d", s.number, index)
	}
	s.delta(delta{ToolCalls: []wireToolCall{
		{Index: index, ID: c.ID, Type: "function", Function: wireFunction{Name: c.Name}},
	}})
	for _, piece := range pieces(c.Arguments) {
		s.delta(delta{ToolCalls: []wireToolCall{{Index: index, Function: wireFunction{Arguments: piece}}}})
	}
}

func (s *stream) usage(u Usage) {
	prompt := u.Input + u.CacheRead + u.CacheWrite
	c := s.base
	c.Usage = &wireUsage{
		Prompt:     prompt,
		Completion: u.Output,
		Total:      prompt + u.Output,
		Details:    promptDetails{Cached: u.CacheRead, Written: u.CacheWrite},
	}
	s.chunk(c)
}

func (s *stream) delta(d delta) { s.choice(choice{Delta: d}) }

func (s *stream) choice(ch choice) {
	c := s.base
	c.Choices = []choice{ch}
	s.chunk(c)
}

func (s *stream) chunk(c chunk) {
	data, _ := json.Marshal(c) // strings and numbers only
	s.event(data)
}

func (s *stream) event(data []byte) {
	fmt.Fprintf(s.w, "data: %s\n\n", data)
	http.NewResponseController(s.w).Flush()
}

// pieces cuts text into short parts, never inside a character.
func pieces(text string) []string {
	size := max(pieceBytes, len(text)/maxPieces)
	var parts []string
	for len(text) > size {
		end := size
		for end < len(text) && !utf8.RuneStart(text[end]) {
			end++
		}
		parts, text = append(parts, text[:end]), text[end:]
	}
	if text != "" {
		parts = append(parts, text)
	}
	return parts
}

// refuse answers with an error in OpenAI's form.
func refuse(w http.ResponseWriter, status int, reason string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{
		"error": map[string]any{"message": reason, "type": "scripted_error", "code": status},
	})
}
