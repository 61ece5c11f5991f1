package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
)

// flood writes deltas until so many bytes are out, or an abort comes.
func (p *pi) flood(ctx context.Context, n int64) {
	delta := append(encode(fields{
		{"type", "message_update"},
		{"usage", usage("pending")},
		{"assistantMessageEvent", fields{{"type", "text_delta"}, {"contentIndex", 0}, {"delta", "word "}}},
	}), '\n')
	block := bytes.Repeat(delta, 1+(64<<10)/len(delta))
	for ; n > 0 && ctx.Err() == nil; n -= int64(len(block)) {
		p.out.raw(block)
	}
}

// line writes one record with a string of so many bytes, without ever having it
// in memory. As a "response" it answers the command.
func (p *pi) line(a action, cmd *command) {
	head := fields{{"type", a.Type}, {"text", ""}}
	tail := `"}` + "\n"
	if a.Type == "response" && cmd != nil {
		cmd.answered = true
		head = fields{{"id", cmd.id()}, {"type", a.Type}, {"command", cmd.Type}, {"success", true}, {"data", fields{{"text", ""}}}}
		tail = `"}}` + "\n"
	}
	begin := strings.TrimRight(string(encode(head)), `"}`) + `"`
	p.out.pour(io.MultiReader(strings.NewReader(begin), io.LimitReader(letters{}, a.Line), strings.NewReader(tail)))
}

// letters is an endless string.
type letters struct{}

func (letters) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

// ask opens a dialog and waits for its answer, whatever that is.
func (p *pi) ask(ctx context.Context, dialog members) {
	id, answered := newID(16), make(chan struct{})
	p.mu.Lock()
	p.asked[id] = answered
	p.mu.Unlock()
	p.out.record(append(fields{{"type", "extension_ui_request"}, {"id", id}}, dialog...)...)
	select {
	case <-answered:
	case <-ctx.Done():
	}
}

// dialogAnswered lets the script go on that asked.
func (p *pi) dialogAnswered(cmd command) {
	var id string
	json.Unmarshal(cmd.ID, &id)
	p.mu.Lock()
	defer p.mu.Unlock()
	if answered := p.asked[id]; answered != nil {
		delete(p.asked, id)
		close(answered)
	}
}
