package mcpserver

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxFrame is the longest line that is taken, as in the SDK's own transports.
const maxFrame = 16 << 20

var errTooLong = fmt.Errorf("the message is over the limit of %d bytes (16 MiB) and was discarded", maxFrame)

// lines cuts a stream at newlines. It never holds more than maxFrame bytes.
type lines struct {
	r   *bufio.Reader
	err error // of r, kept for the call after the last line
}

func newLines(r io.Reader) *lines { return &lines{r: bufio.NewReaderSize(r, 64<<10)} }

// next returns the next line that is not blank, without white space around it;
// the last one needs no newline. The slice is the caller's. After errTooLong
// the rest of that line is gone and the next one can be read; any other error
// is the end.
func (l *lines) next() ([]byte, error) {
	for l.err == nil {
		line, err := l.whole()
		if err != nil {
			return nil, err
		}
		if line = bytes.Trim(line, " \t\r\n"); len(line) > 0 {
			return line, nil
		}
	}
	return nil, l.err
}

// whole reads up to a newline or the end. What it returns at the end can be empty.
func (l *lines) whole() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if len(line)+len(bytes.TrimRight(part, "\r\n")) > maxFrame {
			l.discard(err)
			return nil, errTooLong
		}
		line = append(line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		l.err = err
		return line, nil
	}
}

// discard reads on to the end of the line; err is that of the read before.
func (l *lines) discard(err error) {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.r.ReadSlice('\n')
	}
	l.err = err
}
