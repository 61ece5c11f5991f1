package scripted

import (
	"context"
	"encoding/json"
	"fmt"
)

// A Reply is what the script lets the model say. The zero value is an empty
// answer.
type Reply struct {
	// Text comes first, then the tool calls. With Status it is the reason.
	Text      string
	ToolCalls []ToolCall
	// Usage is what the answer is said to have cost. When it is zero, a token
	// is counted for every four bytes of the request and of the answer.
	Usage Usage
	// Status, when not zero, is an HTTP error status (400 to 599) that is sent
	// instead of an answer. pi tries 429 and 5xx again.
	Status int
	// Delay, when not nil, holds the reply back until a value can be received
	// from it or it is closed. The client's going away and Close end it too.
	Delay <-chan struct{}
}

// A ToolCall is the model's wish to have a tool run.
type ToolCall struct {
	ID        string // in a Reply "" asks for one that is unique to the server
	Name      string
	Arguments string // a JSON object; of a model, so it need not be well formed
}

// Usage counts tokens as pi does: Input are those that no cache knew.
type Usage struct {
	Input, Output, CacheRead, CacheWrite int64
}

// Call makes a tool call from Go values. It panics when they have no JSON form.
func Call(name string, arguments map[string]any) ToolCall {
	data, err := json.Marshal(arguments)
	if err != nil {
		panic(fmt.Sprintf("scripted: arguments of %s: %v", name, err))
	}
	return ToolCall{Name: name, Arguments: string(data)}
}

// wait returns when the reply is due, or false when ctx ended first.
func (r Reply) wait(ctx context.Context) bool {
	if r.Delay == nil {
		return true
	}
	select {
	case <-r.Delay:
		return true
	case <-ctx.Done():
		return false
	}
}

// usage returns the tokens to report.
func (r Reply) usage(req Request) Usage {
	if r.Usage != (Usage{}) {
		return r.Usage
	}
	out := len(r.Text)
	for _, c := range r.ToolCalls {
		out += len(c.Name) + len(c.Arguments)
	}
	return Usage{Input: int64(req.size+3) / 4, Output: int64(out+3) / 4}
}
