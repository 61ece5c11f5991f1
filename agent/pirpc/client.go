package pirpc

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

var (
	// ErrClosed says that the conversation is over: pi's output has ended, or
	// for Send also that CloseInput was called.
	ErrClosed = errors.New("the conversation with pi is over")

	// ErrBusy says that pi has left too much of what it was told unread. The
	// command was not sent, and may be sent again later.
	ErrBusy = errors.New("pi is not reading its commands")

	// ErrTooLong says that pi's answer was longer than Config.MaxRecord. The
	// command itself was carried out.
	ErrTooLong = errors.New("pi's answer is too long")
)

// Limits used when a Config leaves them out. A pi that is asked for its last
// text, or ends a run with many messages, writes records of some MiB; they are
// kept whole so that few callers ever see one cut.
const (
	defaultMaxRecord = 4 << 20
	defaultMaxQueued = 4 << 20
)

// A Config says what to talk over, and whom to tell.
type Config struct {
	// In is pi's standard input. Required. The client owns it, and closes it
	// after CloseInput and after the end of Out. A Close must end a Write that
	// is under way, as it does for sockets and pipes.
	In io.WriteCloser

	// Out is pi's standard output. Required. It is read until its first error,
	// which is the end of the conversation.
	Out io.Reader

	// Log receives every byte of Out as it came, before anything is made of it.
	// Nil means no log. Its errors are ignored: a full disk is no reason to stop
	// hearing what pi says.
	Log io.Writer

	// On receives the records that are not the response to a command of ours.
	// Nil means that nobody listens.
	On func(Record)

	// Want says which types On receives; nil means all but the deltas. It is
	// asked from the reading goroutine, possibly before the record is complete,
	// and then an unwanted one is not stored at all. It is not asked about lines
	// that are no records.
	Want func(typ string) bool

	// MaxRecord is the length in bytes up to which a record is kept whole.
	// Zero means 4 MiB.
	MaxRecord int

	// MaxQueued is how many bytes may wait for pi to read them. Zero means
	// 4 MiB. One command alone may be longer.
	MaxQueued int
}

// A Client is one conversation with one pi. Its methods may be called from any
// goroutine.
//
// It has two goroutines. The reader lives until Out ends. The writer lives until
// In is closed, for which see CloseInput, or a write fails.
type Client struct {
	on      func(Record)
	want    func(string) bool
	frames  framer // used by the reader only
	out     *outbox
	done    chan struct{} // closed by the reader as its last act
	invalid atomic.Int64  // lines that were no records
	lastID  atomic.Int64  // ids are consecutive numbers, so that their order is known

	mu      sync.Mutex // protects the fields below, and the order of ids on the wire
	err     error      // why the conversation ended; nil while it goes on
	pending map[int64]func(Response)
}

// New starts a conversation. It ends when cfg.Out does.
func New(cfg Config) *Client {
	c := &Client{
		on:      cfg.On,
		want:    cfg.Want,
		out:     newOutbox(cfg.In, orDefault(cfg.MaxQueued, defaultMaxQueued)),
		done:    make(chan struct{}),
		pending: make(map[int64]func(Response)),
	}
	if c.on == nil {
		c.on = func(Record) {}
	}
	c.frames = framer{
		in:      cfg.Out,
		log:     cfg.Log,
		max:     orDefault(cfg.MaxRecord, defaultMaxRecord),
		ignored: c.ignored,
		record:  c.record,
	}
	if c.frames.log == nil {
		c.frames.log = io.Discard
	}
	go c.out.run()
	go c.read()
	return c
}

// CloseInput ends pi's input once everything that was sent before has been
// written, which asks pi to finish and exit. It does not wait: while pi reads
// nothing its input stays open, and only killing it helps. What was sent may
// still be answered; sending more fails with ErrClosed. The error is that of
// an earlier write, if one failed.
func (c *Client) CloseInput() error { return c.out.close() }

// Done is closed when the conversation is over and the last call of On and of
// an answered function has returned.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns why the conversation is over, or nil while it goes on: ErrClosed
// after an orderly end of pi's output, else what reading it failed with.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Invalid returns how many lines so far were no records: not JSON, not an
// object, or without a type. On received each of them.
func (c *Client) Invalid() int64 { return c.invalid.Load() }

// read is the reader. Everything that is still unanswered when it ends is
// answered with the reason, so that no caller waits for a pi that is gone.
func (c *Client) read() {
	defer close(c.done)
	err := c.frames.run()
	if err == io.EOF {
		err = ErrClosed
	} else {
		err = fmt.Errorf("cannot read pi's output: %w", err)
	}
	left := c.end(err)
	c.out.abandon()
	for _, answered := range left {
		answered(Response{Err: err})
	}
}

func orDefault(n, zero int) int {
	if n > 0 {
		return n
	}
	return zero
}
