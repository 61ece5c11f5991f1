package artifacts

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// A Stream names one of an agent's two logs, in the words of the tool contract.
type Stream string

// The streams of an agent: what pi wrote to its stdout and to its stderr.
const (
	Stdout Stream = "stdout"
	Errors Stream = "errors"
)

func (s Stream) file() string { return string(s) + ".log" }

func (s Stream) check() error {
	if s != Stdout && s != Errors {
		return refuse("stream", `%q is not a log; pass "stdout" or "errors"`, s)
	}
	return nil
}

// A Log appends to one stream of an agent. One goroutine writes; Size may be
// read from any.
type Log struct {
	f      *os.File
	size   atomic.Int64
	limit  int64  // 0: none
	marker []byte // the line that ends a log which reached its limit
	capped bool   // the marker is in the file
}

// Log opens a stream for appending, making the file when it is gone. A log
// that holds limit bytes takes no more: one line is added that says so, and
// every later byte is dropped, also after the log was opened again. A limit of
// 0 or less is none.
func (d *Dir) Log(name Stream, limit int64) (*Log, error) {
	if err := name.check(); err != nil {
		return nil, err
	}
	const flags = os.O_RDWR | os.O_APPEND | os.O_CREATE | unix.O_NONBLOCK
	f, err := d.root.OpenFile(name.file(), flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open %s: %w", name.file(), err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("it is not a regular file")
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot open %s: %w", name.file(), err)
	}
	l := &Log{f: f, limit: max(limit, 0)}
	l.marker = fmt.Appendf(nil, "[pi-mcp: this log reached its limit of %d bytes; later output is not kept]\n", l.limit)
	l.size.Store(info.Size())
	l.capped = l.endsWithMarker()
	return l, nil
}

// endsWithMarker tells whether an earlier opening capped the log, whatever the
// limit was then, so long as the file is not below the present one.
func (l *Log) endsWithMarker() bool {
	size := l.size.Load()
	if l.limit == 0 || size < l.limit {
		return false
	}
	tail := make([]byte, min(size, 256))
	n, _ := l.f.ReadAt(tail, size-int64(len(tail)))
	tail = bytes.TrimSuffix(tail[:n], []byte("\n"))
	last := tail[bytes.LastIndexByte(tail, '\n')+1:]
	before, after, _ := bytes.Cut(l.marker[:len(l.marker)-1], fmt.Append(nil, l.limit))
	return bytes.HasPrefix(last, before) && bytes.HasSuffix(last, after)
}

// Write appends p. The limit is no error: what goes beyond it is dropped and
// all of p counts as written. An error is the disk's.
func (l *Log) Write(p []byte) (int, error) {
	room := l.limit - l.size.Load()
	switch {
	case l.limit == 0, !l.capped && int64(len(p)) <= room:
		return l.append(p)
	case l.capped || len(p) == 0:
		return len(p), nil
	}
	l.capped = true
	keep := p[:max(room, 0)]
	if n, err := l.append(append(bytes.Clone(keep), l.end(keep)...)); err != nil {
		return min(n, len(keep)), err
	}
	return len(p), nil
}

// end is the marker, on a line of its own after keep.
func (l *Log) end(keep []byte) []byte {
	last := []byte{'\n'}
	if len(keep) > 0 {
		last[0] = keep[len(keep)-1]
	} else if size := l.size.Load(); size > 0 {
		_, _ = l.f.ReadAt(last, size-1)
	}
	if last[0] == '\n' {
		return l.marker
	}
	return append([]byte{'\n'}, l.marker...)
}

func (l *Log) append(p []byte) (int, error) {
	n, err := l.f.Write(p)
	l.size.Add(int64(n))
	if err != nil {
		return n, fmt.Errorf("cannot write to the log: %w", err)
	}
	return n, nil
}

// Size is the length of the file in bytes, the limit's marker included.
func (l *Log) Size() int64 { return l.size.Load() }

// Close closes the file.
func (l *Log) Close() error { return l.f.Close() }

// Tail returns the end of a log: at most n bytes of valid UTF-8, starting with
// a whole character. Bytes that are no text become U+FFFD. It is "" when there
// is nothing to read.
func (d *Dir) Tail(name Stream, n int) string {
	if name.check() != nil || n <= 0 {
		return ""
	}
	f, err := openRegular(d.root, name.file())
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	buf := make([]byte, min(int64(n), info.Size()))
	got, _ := f.ReadAt(buf, info.Size()-int64(len(buf)))
	text := buf[:got]
	for i := 0; i < utf8.UTFMax-1 && len(text) > 0 && int64(got) < info.Size() && !utf8.RuneStart(text[0]); i++ {
		text = text[1:]
	}
	return lastRunes(strings.ToValidUTF8(string(text), "\uFFFD"), n)
}

// lastRunes cuts from the front until at most n bytes are left.
func lastRunes(s string, n int) string {
	for from := max(len(s)-n, 0); ; from++ {
		if from == len(s) || utf8.RuneStart(s[from]) {
			return s[from:]
		}
	}
}
