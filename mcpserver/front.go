package mcpserver

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A front stands between stdin and stdout and the SDK. The SDK's own stdio
// transport ends the session at the first line that is no message, drops the
// answers that are under way when stdin ends, and never answers a request whose
// id is in use. The front refuses what the SDK would choke on, so that all it
// passes on is sound, and keeps the end of stdin to itself until what was asked
// has been answered.
//
// It is a connection of the SDK, not a pair of byte streams under
// [mcp.IOTransport]: so every message is decoded once, and which request an
// answer belongs to is known without parsing the answer.
//
// A front serves one session. It owns both streams.
type front struct {
	in    io.Reader
	out   io.Writer
	drain time.Duration

	// onEOF, when set, is called once when stdin has ended, before answers are
	// waited for: the time to have long calls return. Not to close the session,
	// for then the SDK drops their answers. Not called after Close. It must not
	// block.
	onEOF func()
	// onBroken, when set, is called once when nothing can be written any more,
	// at the first write that fails or as soon as the client closes its end.
	// The session then ends by itself: calls are cancelled, and Run returns
	// when they have returned. It must not block.
	onBroken func(error)

	running   sync.WaitGroup       // the goroutines of Connect; they end after Close
	incoming  chan jsonrpc.Message // closed after readErr is set, when stdin has ended and is drained
	readErr   error
	closed    chan struct{} // by Close
	closeOnce sync.Once
	broken    chan struct{} // closed after brokenErr is set
	breakOnce sync.Once
	brokenErr error

	writing sync.Mutex // held while a line is written, so that lines stay whole

	mu       sync.Mutex          // protects the fields below
	pending  map[jsonrpc.ID]bool // requests without an answer; true: waited for at the end of stdin
	leaving  int                 // answers on their way out
	progress chan struct{}       // holds one token after an answer has left
}

// newFront returns a front over in and out, which must not be the same file.
// Both are closed with the session if they can be. drain bounds the time
// between the end of in and the moment when the SDK hears of it.
func newFront(in io.Reader, out io.Writer, drain time.Duration) *front {
	return &front{
		in: in, out: out, drain: drain,
		incoming: make(chan jsonrpc.Message),
		closed:   make(chan struct{}),
		broken:   make(chan struct{}),
		pending:  make(map[jsonrpc.ID]bool),
		progress: make(chan struct{}, 1),
	}
}

// Transport is for one call of [mcp.Server.Run] or [mcp.Server.Connect].
func (f *front) Transport() mcp.Transport { return f }

// Connect starts the goroutine that reads in and, when out is a file, the one
// that watches for the client's end of it to close. Both end with Close; a
// terminal or file that cannot be read without blocking holds the first until
// the next line.
func (f *front) Connect(context.Context) (mcp.Connection, error) {
	f.running.Go(f.read)
	if file, ok := f.out.(syscall.Conn); ok {
		f.running.Go(func() { f.watch(file) })
	}
	return f, nil
}

// SessionID is empty: stdio has one session and no name for it.
func (f *front) SessionID() string { return "" }

// Read returns the next message that is fit for the SDK. It ends with the
// error of in, after the drain, or with io.EOF at once when nobody reads the
// answers: a client that closes both streams together has not failed.
func (f *front) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-f.closed:
		return nil, io.EOF
	case <-f.broken:
		return nil, io.EOF
	case msg, ok := <-f.incoming:
		if !ok {
			return nil, f.readErr
		}
		return msg, nil
	}
}

// Write sends one message. Several may be sent at a time.
func (f *front) Write(ctx context.Context, msg jsonrpc.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if answer, ok := msg.(*jsonrpc.Response); ok {
		f.answering(answer.ID)
		defer f.answered()
	}
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	return f.writeLine(data)
}

// Close ends the session at once: a blocked read or write of a pipe or socket
// returns. The SDK calls it when every call has returned. A server whose client
// stopped reading has to call it, for the SDK would wait for the write. Close
// can be called often and returns nil.
func (f *front) Close() error {
	f.closeOnce.Do(func() {
		close(f.closed)
		for _, stream := range []any{f.in, f.out} {
			if c, ok := stream.(io.Closer); ok {
				c.Close()
			}
		}
	})
	return nil
}

// answering frees the id before the answer is written: the client may use it
// again as soon as it has read the answer.
func (f *front) answering(id jsonrpc.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pending, id)
	f.leaving++
}

func (f *front) answered() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaving--
	select {
	case f.progress <- struct{}{}:
	default:
	}
}

// writeLine writes one message. After the first failure it fails at once: half
// a line may be out, and what follows would be read as its other half.
func (f *front) writeLine(message []byte) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	select {
	case <-f.broken:
		return f.brokenErr
	case <-f.closed:
		return os.ErrClosed
	default:
	}
	_, err := f.out.Write(append(message, '\n'))
	if err != nil {
		f.fail(err)
	}
	return err
}

// fail reports that out is gone, unless it was Close that closed it.
func (f *front) fail(err error) {
	f.breakOnce.Do(func() {
		select {
		case <-f.closed:
			return
		default:
		}
		f.brokenErr = fmt.Errorf("cannot write to the client: %w", err)
		if f.onBroken != nil {
			f.onBroken(f.brokenErr)
		}
		close(f.broken)
	})
}
