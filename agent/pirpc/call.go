package pirpc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// A Response is pi's answer to one command, or the reason why there is none.
type Response struct {
	Command string // as pi repeats it
	Success bool
	Error   string          // pi's reason when Success is false
	Data    json.RawMessage // the receiver's to keep; nil when pi gave none

	// Err is nil for an answer that was read as a whole. With ErrTooLong,
	// Command and Success hold what pi said and Data is missing. With any other
	// error the conversation is over and nothing else is set.
	Err error
}

// A RefusedError is pi's refusal of one command.
type RefusedError struct {
	Command string
	Message string // pi's own words
}

func (e *RefusedError) Error() string { return "pi refused " + e.Command + ": " + e.Message }

// Send queues one command for pi and returns at once. The command's own members
// are in fields; "id" and "type" are set here.
//
// If Send succeeds, answered is called exactly once, by the reading goroutine,
// in the order in which pi wrote its answer among the other records. Pi may
// begin to act on a command long before it answers. If Send fails, answered is
// never called. The errors are ErrBusy, ErrClosed, what writing to pi failed
// with, and fields that are no JSON.
func (c *Client) Send(command string, fields map[string]any, answered func(Response)) error {
	_, err := c.send(command, fields, answered)
	return err
}

// Call sends one command and waits for its answer, whose data is decoded into
// result unless that is nil. When ctx ends first the answer is forgotten, but
// the command is not taken back; an answer that still comes goes to On. A
// refusal is a *RefusedError.
func (c *Client) Call(ctx context.Context, command string, fields map[string]any, result any) error {
	answer := make(chan Response, 1) // the reader never waits for the caller
	id, err := c.send(command, fields, func(r Response) { answer <- r })
	if err != nil {
		return err
	}
	select {
	case r := <-answer:
		return r.into(command, result)
	case <-ctx.Done():
		c.take(id)
		return fmt.Errorf("waiting for pi to answer %s: %w", command, ctx.Err())
	}
}

// into turns an answer into what Call returns.
func (r Response) into(command string, result any) error {
	switch {
	case r.Err != nil:
		return fmt.Errorf("%s: %w", command, r.Err)
	case !r.Success:
		return &RefusedError{Command: command, Message: r.Error}
	case result == nil || r.Data == nil:
		return nil
	}
	if err := json.Unmarshal(r.Data, result); err != nil {
		return fmt.Errorf("cannot decode pi's answer to %s: %w", command, err)
	}
	return nil
}

// send registers a command and queues its line.
//
// It holds the lock over both, and neither blocks. So an answer cannot be looked
// up before its entry is there, and the end of the conversation falls either
// before the command, which is then refused, or after it, which then answers it.
// There is no third case in which a caller hears nothing, or twice.
func (c *Client) send(command string, fields map[string]any, answered func(Response)) (int64, error) {
	id := c.lastID.Add(1)
	line, err := encode(command, strconv.FormatInt(id, 10), fields)
	if err != nil {
		return 0, fmt.Errorf("cannot encode %s: %w", command, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	if err := c.out.add(line); err != nil {
		return 0, err
	}
	c.pending[id] = answered
	return id, nil
}

// take removes the entry of a command and returns it. Whoever gets it is the
// only one who may call it; the others get nil.
func (c *Client) take(id int64) func(Response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answered := c.pending[id]
	delete(c.pending, id)
	return answered
}

// end closes the door to new commands and returns the unanswered ones, oldest
// first, so that a caller hears of lost commands in the order it gave them. The
// functions are returned and not called: they may take the lock themselves.
func (c *Client) end(err error) []func(Response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	var left []func(Response)
	for _, id := range slices.Sorted(maps.Keys(c.pending)) {
		left = append(left, c.pending[id])
	}
	clear(c.pending)
	return left
}

// encode makes the line of one command, its LF included. encoding/json escapes
// every control character, so nothing in the fields can end the line early. HTML
// is not escaped: a megabyte of source code would grow for nothing. Bytes that
// are no UTF-8 become U+FFFD, since pi would refuse the line.
func encode(typ, id string, fields map[string]any) ([]byte, error) {
	m := make(map[string]any, len(fields)+2)
	maps.Copy(m, fields)
	m["type"], m["id"] = typ, id

	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(m) // ends with the LF
	return b.Bytes(), err
}
