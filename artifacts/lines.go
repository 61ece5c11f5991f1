package artifacts

import (
	"context"
	"fmt"
	"os"
	"unicode/utf8"
)

// maxLineChars is how much of a line is shown, in characters.
const maxLineChars = 10_000

// readLines fills the chunk with whole lines, as many as the range and the
// budget allow. Only a first line that does not fit is cut.
func (c *Chunk) readLines(ctx context.Context, f *os.File, r Range) error {
	from := value(r.LinesFrom, 0)
	c.Mode, c.LinesFrom, c.LinesTo = "lines", &from, &r.LinesTo
	src := newLineReader(ctx, f, c.Size)
	skipped, err := src.skip(from)
	if err != nil {
		return err
	}
	if skipped < from {
		c.warn("lines_from is beyond the end of the file, which has %d lines", skipped)
	}
	most := value(r.MaxLines, c.Size)
	if r.LinesTo != nil {
		most = min(most, *r.LinesTo-from)
	}
	t := text{chunk: c, budget: r.budget(c.MaxBytes), line: from}
	for n := int64(0); n < most; n++ {
		if more, err := t.add(src); err != nil {
			return err
		} else if !more {
			break
		}
	}
	t.finish(src.off)
	return nil
}

// A text collects the lines of a chunk.
type text struct {
	chunk  *Chunk
	budget *budget
	line   int64 // number of the next line
	buf    []byte
	marks  []mark
	resume int64 // where to go on when the last line read was not taken whole; 0: after it
}

// A mark is a place in the collected bytes where characters were left out.
type mark struct {
	at    int
	chars int64
}

// What the mark, the warning and the region of a long line take beside it.
const markBytes, markWire = 48, 600

// add takes the next line, or what fits of it; more is false when the chunk is
// complete.
func (t *text) add(src *lineReader) (more bool, err error) {
	start := src.off
	l, err := src.line()
	if err != nil || src.off == start {
		return false, err
	}
	var extraBytes, extraWire int64
	if l.long {
		extraBytes, extraWire = markBytes, markWire
	}
	fits := t.budget.take(l.kept, extraBytes, extraWire)
	if !fits && t.line > *t.chunk.LinesFrom {
		t.resume = start
		return false, nil
	}
	if l.long {
		if err := src.rest(&l); err != nil {
			return false, err
		}
	}
	switch {
	case !fits:
		t.cut(l.kept, start, src.off)
	case l.long:
		t.shorten(l, start)
	default:
		t.buf = append(t.buf, l.kept...)
	}
	t.line++
	return fits, nil
}

// shorten adds a line that is longer than is shown, with a mark.
func (t *text) shorten(l line, start int64) {
	t.buf = append(t.buf, l.kept...)
	t.marks = append(t.marks, mark{len(t.buf), l.chars})
	t.leftOut(start+int64(len(l.kept)), start+l.length)
	t.chunk.warn("line %d is longer than %d characters; %d of them are left out", t.line, maxLineChars, l.chars)
	if l.newline {
		t.buf = append(t.buf, '\n')
	}
}

// cut adds the beginning of a first line that does not fit.
func (t *text) cut(kept []byte, start, end int64) {
	n := t.budget.fit(kept)
	t.buf = append(t.buf, kept[:n]...)
	t.resume = start + int64(n)
	if t.resume < end {
		t.leftOut(t.resume, end)
		t.chunk.warn("line %d did not fit and is cut after %d bytes; go on from next_offset for the rest of it, "+
			"or from next_line for the line after it", t.line, n)
	}
}

func (t *text) leftOut(from, to int64) {
	t.chunk.TruncatedRegions = append(t.chunk.TruncatedRegions, Region{from, to, t.line})
}

// finish puts everything into the chunk; off is where the last line ended.
func (t *text) finish(off int64) {
	c := t.chunk
	c.NextOffset = off
	if t.resume > 0 {
		c.NextOffset = t.resume
	}
	if t.budget.capped {
		c.warn("the chunk ended early to fit the response; go on from next_offset")
	}
	c.LineCount = t.line - *c.LinesFrom
	c.NextLine = &t.line
	if utf8.Valid(t.buf) {
		c.setContent(t.marked())
	} else {
		c.setContent(t.buf) // in base64 a mark would be taken for the file's own bytes
	}
}

func (t *text) marked() []byte {
	if len(t.marks) == 0 {
		return t.buf
	}
	var out []byte
	at := 0
	for _, m := range t.marks {
		out = append(out, t.buf[at:m.at]...)
		out = fmt.Appendf(out, "...<truncated %d chars>", m.chars)
		at = m.at
	}
	return append(out, t.buf[at:]...)
}
