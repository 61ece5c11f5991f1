package pirpc

import (
	"fmt"
	"io"
	"sync"
)

// dialogRoom is what answers to dialogs may take beyond the limit for commands.
// A pi that asks while its input is full must still get its answer, but one
// that asks for ever and never reads must not fill the memory.
const dialogRoom = 1 << 20

// An outbox is the queue between those who tell pi something and pi's input.
// It exists so that nobody but its own goroutine ever waits for pi to read. Were
// the reader to write its answers to dialogs itself, it and a pi that waits for
// its own output to be read could wait for each other for ever.
//
// A channel would not do: the limit is in bytes, a message being
// anything between thirty bytes and a megabyte.
type outbox struct {
	w    io.WriteCloser
	max  int
	shut sync.Once // w is closed by whoever comes first

	mu      sync.Mutex // protects the fields below
	change  sync.Cond  // signalled when one of them changes
	queue   [][]byte   // lines not yet given to w
	bytes   int        // their length, and that of the line being written
	closing bool       // no more lines are taken
	err     error      // what a write failed with
}

func newOutbox(w io.WriteCloser, max int) *outbox {
	o := &outbox{w: w, max: max}
	o.change.L = &o.mu
	return o
}

// add queues a command.
func (o *outbox) add(line []byte) error { return o.put(line, o.max) }

// addAnswer queues the answer to a dialog.
func (o *outbox) addAnswer(line []byte) error { return o.put(line, o.max+dialogRoom) }

// put takes a line of any length when nothing else waits: a single command
// longer than the limit could otherwise never be sent at all.
func (o *outbox) put(line []byte, limit int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.err != nil:
		return o.err
	case o.closing:
		return ErrClosed
	case o.bytes > 0 && o.bytes+len(line) > limit:
		return ErrBusy
	}
	o.queue = append(o.queue, line)
	o.bytes += len(line)
	o.change.Signal()
	return nil
}

// run is the writer. Closing w is its last act, after a failed write too, where
// it tells a pi that still lives that nothing more will come.
func (o *outbox) run() {
	defer o.closeNow()
	for {
		line, ok := o.next()
		if !ok {
			return
		}
		_, err := o.w.Write(line)
		o.wrote(len(line), err)
	}
}

// next waits for a line. It returns false when there will be no more: after
// close once the queue is empty, and after a failed write at once, because a pi
// that has seen half a line would take the next one for its rest.
func (o *outbox) next() ([]byte, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) == 0 && !o.closing && o.err == nil {
		o.change.Wait()
	}
	if len(o.queue) == 0 || o.err != nil {
		return nil, false
	}
	line := o.queue[0]
	o.queue = o.queue[1:]
	return line, true
}

// wrote takes a line off the account. The first failure stays: what comes after
// it is its consequence.
func (o *outbox) wrote(n int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bytes -= n
	if err != nil && o.err == nil {
		o.err = fmt.Errorf("cannot write to pi: %w", err)
	}
}

// close lets the writer finish what is queued and then end.
func (o *outbox) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closing = true
	o.change.Signal()
	return o.err
}

// abandon ends the writer at once, and drops what is queued: there is nobody
// left to read it. Closing w frees a writer that is stuck in the middle of a
// line.
func (o *outbox) abandon() {
	o.mu.Lock()
	o.closing = true
	o.queue = nil
	o.change.Signal()
	o.mu.Unlock()
	o.closeNow()
}

// closeNow ignores the error of Close: every byte was either accepted by Write
// or is of no use any more.
func (o *outbox) closeNow() { o.shut.Do(func() { o.w.Close() }) }
