package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"sync"
)

// fields is a JSON object whose members keep their order, because pi's do and
// its readers may lean on it. A member that is nil is left out.
type fields []field

type field struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (f fields) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for _, m := range f {
		if m.value == nil {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(b, encode(m.name)...)
		b = append(b, ':')
		b = append(b, encode(m.value)...)
	}
	return append(b, '}'), nil
}

// encode writes JSON as JavaScript does: no HTML escapes, and U+2028 raw.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		fail("cannot encode: %v", err)
	}
	return rawSeparators(bytes.TrimSuffix(b.Bytes(), []byte{'\n'}))
}

// rawSeparators undoes the one escape that encoding/json cannot be talked out of.
func rawSeparators(b []byte) []byte {
	out := b[:0]
	for i := 0; i < len(b); i++ {
		switch rest := b[i:]; {
		case bytes.HasPrefix(rest, []byte(`\u2028`)):
			out, i = append(out, "\u2028"...), i+5
		case bytes.HasPrefix(rest, []byte(`\u2029`)):
			out, i = append(out, "\u2029"...), i+5
		case b[i] == '\\':
			out, i = append(out, b[i], b[i+1]), i+1
		default:
			out = append(out, b[i])
		}
	}
	return out
}

// A wire is pi's output. One record is written at a time.
type wire struct {
	mu   sync.Mutex // protects w and open
	w    *os.File
	open bool // agent_start was written, and no agent_settled after it
}

// record writes one record.
func (o *wire) record(members ...field) { o.raw(append(encode(fields(members)), '\n')) }

// raw writes bytes as they are.
func (o *wire) raw(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.watch(b)
	o.w.Write(b)
}

// split writes each byte alone.
func (o *wire) split(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.watch(b)
	for i := range b {
		o.w.Write(b[i : i+1])
	}
}

// pour writes without an end of its own, and without anything in between.
func (o *wire) pour(r io.Reader) {
	o.mu.Lock()
	defer o.mu.Unlock()
	io.Copy(struct{ io.Writer }{o.w}, r)
}

// watch keeps track of whether a run is visible, whoever wrote it.
func (o *wire) watch(b []byte) {
	start := bytes.LastIndex(b, []byte(`"type":"agent_start"`))
	settled := bytes.LastIndex(b, []byte(`"type":"agent_settled"`))
	if start >= 0 || settled >= 0 {
		o.open = start > settled
	}
}

func (o *wire) isOpen() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.open
}
