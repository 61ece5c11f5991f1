package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// A Request is one call of the model, with the whole conversation so far.
type Request struct {
	Model    string
	Messages []Message
	Tools    []Tool
	Key      string // the bearer token that came with it, "" without one

	usage bool // the client asked for a usage chunk
	size  int  // bytes of the body
}

// A Message is one turn of the conversation.
type Message struct {
	Role       string     // system, developer, user, assistant or tool
	Text       string     // the text parts, joined by newlines; images are left out
	ToolCalls  []ToolCall // of an assistant's message
	ToolCallID string     // of a tool's message: the call that it answers
}

// A Tool is what the model was told that it may call.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage // a JSON schema
}

// Last returns the text of the latest message of the user, "" without one.
func (r Request) Last() string {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == "user" {
			return r.Messages[i].Text
		}
	}
	return ""
}

// AllText returns the text of every message, the system prompt and tool
// results too, joined by newlines: to look for a word anywhere.
func (r Request) AllText() string {
	texts := make([]string, len(r.Messages))
	for i, m := range r.Messages {
		texts[i] = m.Text
	}
	return strings.Join(texts, "\n")
}

// ToolResult returns the text of the tool result that ends the conversation.
// When there is none, because it is the user who spoke last, ok is false.
func (r Request) ToolResult() (text string, ok bool) {
	if len(r.Messages) == 0 {
		return "", false
	}
	last := r.Messages[len(r.Messages)-1]
	if last.Role != "tool" {
		return "", false
	}
	return last.Text, true
}

// IsCompaction reports whether this is pi asking for a summary of the
// conversation, to go on with less context, and not a turn of the agent. Such
// a request is sent without tools and under a system prompt of its own, which
// is the same for a whole conversation, a part of one, and a branch
// (SUMMARIZATION_SYSTEM_PROMPT in pi's core/compaction).
func (r Request) IsCompaction() bool {
	return len(r.Messages) > 0 && len(r.Tools) == 0 &&
		strings.HasPrefix(r.Messages[0].Text, "You are a context summarization assistant")
}

// wireRequest holds the parts of a chat completions request that are used.
type wireRequest struct {
	Model         string        `json:"model"`
	Stream        bool          `json:"stream"`
	StreamOptions streamOptions `json:"stream_options"`
	Messages      []wireMessage `json:"messages"`
	Tools         []wireTool    `json:"tools"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type wireMessage struct {
	Role       string         `json:"role"`
	Content    content        `json:"content"`
	ToolCalls  []wireToolCall `json:"tool_calls"`
	ToolCallID string         `json:"tool_call_id"`
}

type wireTool struct {
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// content is a string, null, or a list of parts on the wire.
type content string

func (c *content) UnmarshalJSON(data []byte) error {
	var text *string
	if json.Unmarshal(data, &text) == nil {
		if text != nil {
			*c = content(*text)
		}
		return nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	var texts []string
	for _, p := range parts {
		if p.Type == "text" {
			texts = append(texts, p.Text)
		}
	}
	*c = content(strings.Join(texts, "\n"))
	return nil
}

// readRequest takes the request off the connection. A body over the limit is a
// *http.MaxBytesError.
func readRequest(w http.ResponseWriter, r *http.Request) (Request, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return Request{}, err
	}
	var wire wireRequest
	if err := json.Unmarshal(body, &wire); err != nil {
		return Request{}, fmt.Errorf("not a chat completions request: %w", err)
	}
	if !wire.Stream {
		return Request{}, errors.New("only streaming requests are answered: set stream to true")
	}
	req := wire.request()
	req.size = len(body)
	req.Key, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return req, nil
}

func (w wireRequest) request() Request {
	r := Request{Model: w.Model, usage: w.StreamOptions.IncludeUsage}
	for _, m := range w.Messages {
		r.Messages = append(r.Messages, m.message())
	}
	for _, t := range w.Tools {
		r.Tools = append(r.Tools, Tool(t.Function))
	}
	return r
}

func (w wireMessage) message() Message {
	m := Message{Role: w.Role, Text: string(w.Content), ToolCallID: w.ToolCallID}
	for _, c := range w.ToolCalls {
		m.ToolCalls = append(m.ToolCalls, ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	return m
}
