package pirpc

import (
	"bytes"
	"encoding/json"
	"io"
)

const (
	// chunk is how much is read at once: what a pipe holds, so that one read
	// empties it and one write to the log suffices.
	chunk = 64 << 10

	// kept is the size up to which the buffer of a long record is used again.
	// A bigger one is given back, so that an idle agent costs little.
	kept = 1 << 20

	// undecided is the length after which a record that does not say what it is
	// is no longer asked before its end.
	undecided = 4 << 10
)

// A framer cuts pi's output into records. Only the LF counts: everything is
// bytes here, and neither characters nor line separators of any other kind are
// looked at.
//
// Most records lie within one chunk and are handed on where they lie. Only one
// that spans chunks is gathered in line, and only if somebody wants it.
type framer struct {
	in      io.Reader
	log     io.Writer
	max     int                                   // longest record kept whole
	ignored func(beginning []byte) (yes, ok bool) // ok: the beginning suffices to tell
	record  func(line []byte, cut bool)           // line is valid during the call

	line    []byte // beginning of the record whose end has not been read
	cut     bool   // line is shorter than the record
	skip    bool   // nobody wants this record: its bytes are dropped up to the LF
	decided bool   // skip is known
}

// run reads until the first error and returns it. Bytes that come together with
// the error count.
func (f *framer) run() error {
	buf := make([]byte, chunk)
	for {
		n, err := f.in.Read(buf)
		if n > 0 {
			f.log.Write(buf[:n]) // the log before anything else, so that it explains what follows
			f.feed(buf[:n])
		}
		if err != nil {
			f.last()
			return err
		}
	}
}

// feed takes the next bytes apart. What it is given may begin and end anywhere,
// in the middle of a character too.
func (f *framer) feed(b []byte) {
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			f.gather(b)
			return
		}
		f.finish(b[:i])
		b = b[i+1:]
	}
}

// finish handles the record that ends with tail. The usual case, a record of
// which nothing was gathered before, costs no copy.
func (f *framer) finish(tail []byte) {
	if len(f.line) == 0 && !f.skip {
		f.emit(tail, false)
		return
	}
	f.gather(tail)
	if !f.skip {
		f.emit(f.line, f.cut)
	}
	f.reset()
}

// emit hands on one record. The CR that the protocol allows before the LF is no
// part of it.
func (f *framer) emit(line []byte, cut bool) {
	if !cut {
		line = bytes.TrimSuffix(line, []byte{'\r'})
	}
	if len(line) > f.max {
		line, cut = line[:f.max], true
	}
	if len(line) > 0 {
		f.record(line, cut)
	}
}

// gather keeps b as the next part of the record, as far as it is of use. Once
// the beginning says that nobody wants the record, nothing more of it is kept;
// once it is as long as allowed, the rest is dropped and only its end awaited.
// Either way the bytes have been logged.
func (f *framer) gather(b []byte) {
	if f.skip {
		return
	}
	if room := f.max + 1 - len(f.line); len(b) > room { // one more, for the CR
		b, f.cut = b[:room], true
	}
	f.line = append(f.grown(len(b)), b...)
	if !f.decided {
		f.skip, f.decided = f.ignored(f.line)
		f.decided = f.decided || len(f.line) > undecided
	}
	if f.skip {
		f.line = f.line[:0]
	}
}

// grown returns line with room for n more bytes. It grows in few big steps:
// doubling would leave behind as much as it ends with, and the memory of an
// agent is promised to stay below twice MaxRecord.
func (f *framer) grown(n int) []byte {
	need := len(f.line) + n
	if need <= cap(f.line) {
		return f.line
	}
	size := max(chunk, need, 4*cap(f.line))
	if size > f.max/2 {
		size = f.max + 1
	}
	return append(make([]byte, 0, size), f.line...)
}

// reset makes ready for the next record.
func (f *framer) reset() {
	f.cut, f.skip, f.decided = false, false, false
	if f.line = f.line[:0]; cap(f.line) > kept {
		f.line = nil
	}
}

// last handles what stands after the final LF. That is a record if it is
// complete, since no JSON object is the beginning of another; else pi was killed
// in the middle of a line, which is no news to anyone.
func (f *framer) last() {
	if !f.skip && !f.cut && json.Valid(f.line) {
		f.emit(f.line, false)
	}
}

// own returns bytes of the record being handled that outlive the call. A long
// record gives its buffer away instead of being copied.
func (f *framer) own(b []byte) []byte {
	if len(b) <= chunk {
		return bytes.Clone(b)
	}
	f.line = nil
	return b
}
