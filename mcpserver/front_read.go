package mcpserver

import (
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// read is the one reader of in. It blocks while the SDK takes no message, and
// while a refusal cannot be written.
func (f *front) read() {
	defer close(f.incoming)
	lines := newLines(f.in)
	for {
		line, err := lines.next()
		if err != nil && !errors.Is(err, errTooLong) {
			f.end(err)
			return
		}
		msg, no := f.accept(line, err)
		if no != nil {
			f.writeLine(no.line())
			continue
		}
		select {
		case f.incoming <- msg:
		case <-f.closed:
			return
		case <-f.broken:
			return
		}
	}
}

// accept judges a line and, when it is a request, notes that it wants an
// answer. The SDK would leave a request with an id in use without one.
func (f *front) accept(line []byte, err error) (jsonrpc.Message, *refusal) {
	if err != nil {
		return nil, invalid(nil, err.Error())
	}
	msg, no := judge(line)
	req, ok := msg.(*jsonrpc.Request)
	if no != nil || !ok || !req.IsCall() {
		return msg, no
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, used := f.pending[req.ID]; used {
		// Without the id: with it the client would take this for the answer to the other.
		return nil, invalid(nil, fmt.Sprintf("request id %v is in use", req.ID.Raw()))
	}
	// A subscription is answered when the client cancels it, so never after the end.
	f.pending[req.ID] = req.Method != "subscriptions/listen"
	return msg, nil
}

// end waits after the end of in until every answer is out, or for the drain.
func (f *front) end(err error) {
	f.readErr = err
	select {
	case <-f.closed: // err is of our own making
		return
	default:
	}
	if f.onEOF != nil {
		f.onEOF()
	}
	late := time.NewTimer(f.drain)
	defer late.Stop()
	for !f.idle() {
		select {
		case <-f.progress:
		case <-late.C:
			return
		case <-f.closed:
			return
		case <-f.broken:
			return
		}
	}
}

func (f *front) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, awaited := range f.pending {
		if awaited {
			return false
		}
	}
	return f.leaving == 0
}
