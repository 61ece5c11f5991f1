package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// brief says in a few words what a record is: "message_end user: Hello".
func brief(raw []byte) string {
	var r struct {
		Type, Method       string
		Message            struct{ Role, StopReason string }
		Steering, FollowUp []string
		Aborted            bool
	}
	json.Unmarshal(raw, &r)
	switch s := r.Type; {
	case r.Message.Role != "":
		return strings.TrimRight(fmt.Sprintf("%s %s: %s %s", s, r.Message.Role, textOf(raw), r.Message.StopReason), ": ")
	case s == "queue_update":
		return fmt.Sprintf("%s %v %v", s, r.Steering, r.FollowUp)
	case r.Aborted || r.Method != "":
		return s + " " + r.Method + strings.Repeat("aborted", count(r.Aborted))
	default:
		return s
	}
}

// textOf is the text of a record's message.
func textOf(raw []byte) (text string) {
	var r struct {
		Message struct{ Content []struct{ Text string } }
	}
	json.Unmarshal(raw, &r)
	for _, c := range r.Message.Content {
		text += c.Text
	}
	return text
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// shape is the skeleton of a record: its members in order, and those of its
// message, data and messages; of these what says which record it is.
func shape(raw []byte) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.Token()
	var b strings.Builder
	for dec.More() {
		name, _ := dec.Token()
		var value json.RawMessage
		dec.Decode(&value)
		fmt.Fprint(&b, name)
		switch name {
		case "type", "command", "success", "role", "stopReason", "disposition", "aborted", "willRetry", "error":
			fmt.Fprintf(&b, "=%s", value)
		case "message", "data", "assistantMessageEvent", "tokens", "contextUsage":
			fmt.Fprintf(&b, "{%s}", shape(value))
		}
		b.WriteByte(' ')
	}
	return strings.TrimSpace(b.String())
}
