package pirpc

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// A Record is one line of pi's output that answers no command of ours.
type Record struct {
	// Type is pi's name for it, such as "agent_start", or "" for a line that is
	// no record at all. A response that nobody waits for is a "response".
	Type string

	// ID is set for the few records that carry one, dialogs among them.
	ID string

	// Raw is the line without its end. It is valid until On returns.
	Raw []byte

	// Cut says that the line was longer than Config.MaxRecord. Raw is only its
	// beginning, and no JSON.
	Cut bool
}

// Types that this package acts on.
const (
	typeResponse      = "response"
	typeDialog        = "extension_ui_request"
	typeMessageUpdate = "message_update"
	typeToolUpdate    = "tool_execution_update"
)

// Deltas begin like this in every pi that is supported. If a later one writes
// its members in another order, typeOf still finds the type, only not as fast.
var (
	prefixMessageUpdate = []byte(`{"type":"` + typeMessageUpdate + `"`)
	prefixToolUpdate    = []byte(`{"type":"` + typeToolUpdate + `"`)
)

// typeOf returns the type of the record that begins with line, or "" if line
// does not say. It needs no more of the record than that.
func typeOf(line []byte) string {
	switch {
	case bytes.HasPrefix(line, prefixMessageUpdate):
		return typeMessageUpdate
	case bytes.HasPrefix(line, prefixToolUpdate):
		return typeToolUpdate
	}
	for key, value := range members(line) {
		if key == "type" {
			return text(value)
		}
	}
	return ""
}

// ignored tells the framer early whether a record is worth storing. Without it a
// delta that lies across two reads would be gathered only to be dropped, and a
// tool's output of many MiB would be too.
func (c *Client) ignored(beginning []byte) (yes, ok bool) {
	typ := typeOf(beginning)
	return typ != "" && !c.wanted(typ), typ != ""
}

// wanted says whether records of a type are looked at. Responses and dialogs
// always are, whoever else wants them.
func (c *Client) wanted(typ string) bool {
	return typ == typeResponse || typ == typeDialog || c.listed(typ)
}

// listed says whether On receives a type. A caller who names the deltas in Want
// gets them, at the price of decoding most of the stream.
func (c *Client) listed(typ string) bool {
	if c.want != nil {
		return c.want(typ)
	}
	return typ != typeMessageUpdate && typ != typeToolUpdate
}

// record handles one line. Lines that are ignored are not even checked: that is
// what makes the deltas cheap. All others are, so that On and the answered
// functions may decode what they get without expecting the worst. Of a cut line
// only the beginning can be looked at.
func (c *Client) record(line []byte, cut bool) {
	typ := typeOf(line)
	if typ != "" && !c.wanted(typ) {
		return
	}
	if typ == "" || !cut && !json.Valid(line) {
		c.invalid.Add(1)
		c.on(Record{Raw: line, Cut: cut})
		return
	}
	h := headOf(line)
	if typ == typeResponse && c.answer(h, cut) {
		return
	}
	if typ == typeDialog {
		c.dismiss(h)
	}
	if c.listed(typ) {
		c.on(Record{Type: typ, ID: text(h.id), Raw: line, Cut: cut})
	}
}

// answer gives a response to the one who waits for it, and returns false if
// nobody does: a command that was never parsed has no id, and one whose caller
// gave up is no longer in the table. A cut response still says whether the
// command was carried out, because pi writes that before the data.
func (c *Client) answer(h head, cut bool) bool {
	id, err := strconv.ParseInt(text(h.id), 10, 64)
	if err != nil {
		return false
	}
	answered := c.take(id)
	if answered == nil {
		return false
	}
	r := Response{Command: text(h.command), Success: string(h.success) == "true"}
	if cut {
		r.Err = ErrTooLong
	} else {
		r.Error = text(h.err)
		r.Data = c.frames.own(h.data)
	}
	answered(r)
	return true
}

// dismiss answers a dialog for the person who is not there. Only four methods
// wait for an answer; the others are news. If pi has left more than MaxQueued
// unread the answer is dropped, since it would not be read either.
func (c *Client) dismiss(h head) {
	switch text(h.method) {
	case "select", "confirm", "input", "editor":
	default:
		return
	}
	line, err := encode("extension_ui_response", text(h.id), map[string]any{"cancelled": true})
	if err == nil {
		_ = c.out.addAnswer(line)
	}
}
