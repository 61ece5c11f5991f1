package artifacts

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// A lineReader reads lines of any length through a buffer of fixed size.
type lineReader struct {
	ctx  context.Context
	file *os.File
	sec  *io.SectionReader
	buf  *bufio.Reader
	off  int64 // of the next byte that is not consumed
	size int64
}

// lineBuffer is more than maxLineChars of four bytes each.
const lineBuffer = 64 << 10

func newLineReader(ctx context.Context, f *os.File, size int64) *lineReader {
	sec := io.NewSectionReader(f, 0, size)
	return &lineReader{ctx: ctx, file: f, sec: sec, buf: bufio.NewReaderSize(sec, lineBuffer), size: size}
}

// A line is one line of a file, or the beginning of one.
type line struct {
	kept    []byte // the line with its newline, or what is shown of a long one; valid until the next read
	long    bool   // longer than is shown; the fields below are complete after rest
	chars   int64  // how many characters are not shown
	length  int64  // in bytes, without the newline
	newline bool
}

// line reads the next line, or as much of it as the buffer holds. At the end
// of the file it moves nowhere.
func (r *lineReader) line() (line, error) {
	if err := r.ctx.Err(); err != nil {
		return line{}, err
	}
	b, err := r.buf.ReadSlice('\n')
	if err != nil && err != io.EOF && err != bufio.ErrBufferFull {
		return line{}, err
	}
	r.off += int64(len(b))
	text := bytes.TrimSuffix(b, []byte("\n"))
	l := line{kept: b, length: int64(len(text)), newline: len(text) < len(b)}
	if shown := leading(text, maxLineChars); shown < len(text) || err == bufio.ErrBufferFull {
		l.long = true
		l.kept = bytes.Clone(text[:shown])
		l.chars = chars(text[shown:])
	}
	return l, nil
}

// rest reads to the end of a long line and completes what is known of it.
func (r *lineReader) rest(l *line) error {
	for !l.newline {
		if err := r.ctx.Err(); err != nil {
			return err
		}
		hole, err := r.leap()
		if err != nil {
			return err
		}
		l.chars += hole
		l.length += hole
		b, err := r.buf.ReadSlice('\n')
		r.off += int64(len(b))
		text := bytes.TrimSuffix(b, []byte("\n"))
		l.newline = len(text) < len(b)
		l.chars += chars(text)
		l.length += int64(len(text))
		if err == io.EOF {
			return nil
		}
		if err != nil && err != bufio.ErrBufferFull {
			return err
		}
	}
	return nil
}

// skip goes past n lines, or to the end of the file; it returns how many.
func (r *lineReader) skip(n int64) (skipped int64, err error) {
	partial := false // some bytes of a line were passed, but not its newline
	for skipped < n {
		if err := r.ctx.Err(); err != nil {
			return 0, err
		}
		hole, err := r.leap()
		if err != nil {
			return 0, err
		}
		partial = partial || hole > 0
		if _, err := r.buf.Peek(1); err == io.EOF {
			if partial {
				skipped++
			}
			return skipped, nil
		} else if err != nil {
			return 0, err
		}
		b, _ := r.buf.Peek(r.buf.Buffered())
		lines, length := upTo(b, n-skipped)
		skipped += lines
		partial = b[length-1] != '\n'
		r.off += int64(length)
		_, _ = r.buf.Discard(length)
	}
	return skipped, nil
}

// upTo returns how many newlines, at most n, are in b, and the length of the
// part of b that has them: all of b when there are fewer than n.
func upTo(b []byte, n int64) (lines int64, length int) {
	if all := int64(bytes.Count(b, []byte("\n"))); all < n {
		return all, len(b)
	}
	for ; lines < n; lines++ {
		length += bytes.IndexByte(b[length:], '\n') + 1
	}
	return lines, length
}

// leap goes past a hole in a sparse file, which has no newline in it, and
// returns its length. A file of a terabyte costs an agent nothing to make.
func (r *lineReader) leap() (int64, error) {
	if b, err := r.buf.Peek(1); err != nil || b[0] != 0 {
		return 0, nil // whatever the error is, the next read meets it
	}
	to, err := r.file.Seek(r.off, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		to = r.size
	case err != nil:
		return 0, nil // this file system knows no holes
	}
	hole := min(to, r.size) - r.off
	if hole <= 0 {
		return 0, nil
	}
	if _, err := r.sec.Seek(r.off+hole, io.SeekStart); err != nil {
		return 0, err
	}
	r.buf.Reset(r.sec)
	r.off += hole
	return hole, nil
}

// leading is the length of the first n characters of b.
func leading(b []byte, n int) int {
	if len(b) <= n {
		return len(b)
	}
	at := 0
	for ; n > 0 && at < len(b); n-- {
		_, w := utf8.DecodeRune(b[at:])
		at += w
	}
	return at
}

// chars counts characters of UTF-8 that may begin or end anywhere.
func chars(b []byte) int64 {
	n := int64(0)
	for _, c := range b {
		if c&0xC0 != 0x80 {
			n++
		}
	}
	return n
}
