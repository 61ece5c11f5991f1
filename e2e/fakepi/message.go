package main

import "time"

// A message is one message of the conversation, with its members in pi's order.
type message struct {
	role, text string
	body       fields
}

// MarshalJSON implements json.Marshaler.
func (m message) MarshalJSON() ([]byte, error) { return m.body.MarshalJSON() }

// systemMessage opens the first run of a session.
func systemMessage() message {
	return message{role: "system", body: fields{
		{"role", "system"},
		{"content", ""},
		{"sections", fields{{"preamble", "You are a fake pi."}}},
		{"timestamp", millis()},
		{"toolsAdded", []string{}},
	}}
}

func userMessage(text string) message {
	return message{role: "user", text: text, body: fields{
		{"role", "user"}, {"content", textContent(text)}, {"timestamp", millis()},
	}}
}

// assistantMessage is what the model has said so far. A reason other than stop
// is pending, or aborted with the words that go with it.
func (p *pi) assistantMessage(text, stop string) message {
	m := message{role: "assistant", text: text, body: fields{
		{"role", "assistant"},
		{"content", textContent(text)},
		{"api", "openai-completions"},
		{"provider", p.opts.provider},
		{"model", p.opts.model},
		{"usage", usage(stop)},
		{"stopReason", stop},
		{"timestamp", millis()},
	}}
	switch stop {
	case "stop":
		m.body = append(m.body, field{"responseId", "r1"}, field{"rawStopReason", "stop"})
	case "aborted":
		m.body = append(m.body, field{"responseId", "r1"}, field{"errorMessage", "Request was aborted"})
	}
	if stop != "pending" {
		m.body = append(m.body, field{"durationMs", 1}, field{"thinkingLevel", p.opts.thinking})
	}
	return m
}

func textContent(text string) []fields {
	if text == "" {
		return []fields{}
	}
	return []fields{{{"type", "text"}, {"text", text}}}
}

// What one answer costs; a finished one only. The cost is a binary fraction, so
// that sums are exact.
const (
	inputTokens  = 10
	outputTokens = 5
	answerCost   = 0.25
)

func usage(stop string) fields {
	in, out, cost := 0, 0, 0.0
	if stop == "stop" {
		in, out, cost = inputTokens, outputTokens, answerCost
	}
	return fields{
		{"input", in}, {"output", out}, {"cacheRead", 0}, {"cacheWrite", 0}, {"totalTokens", in + out},
		{"cost", fields{{"input", 0}, {"output", cost}, {"cacheRead", 0}, {"cacheWrite", 0}, {"total", cost}}},
	}
}

func millis() int64 { return time.Now().UnixMilli() }
