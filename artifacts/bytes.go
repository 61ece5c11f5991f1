package artifacts

import (
	"io"
	"os"
	"unicode/utf8"
)

// aside is how many bytes on either side of a range are looked at to tell a
// character that the range cuts from bytes that are no text.
const aside = utf8.UTFMax - 1

// readBytes fills the chunk with a range of bytes. In text, a character belongs
// to the range that holds its first byte: the rest of one that began before is
// left out, one that bytes_to cuts is given whole, and one that max_bytes cuts
// is left for the next chunk. So ranges that follow each other give every
// character once. What is no text is given byte by byte as asked, except that
// a chunk which max_bytes ends does not end inside something like a character,
// since the next one may be text.
func (c *Chunk) readBytes(f *os.File, r Range) error {
	from := value(r.BytesFrom, 0)
	c.Mode, c.BytesFrom, c.BytesTo, c.NextOffset = "bytes", &from, &r.BytesTo, from
	if r.MaxLines != nil {
		c.warn("max_lines has no effect on a range of bytes")
	}
	if from > c.Size {
		c.warn("bytes_from is beyond the end of the file, which has %d bytes", c.Size)
	}
	g := r.budget(c.MaxBytes)
	to := min(value(r.BytesTo, c.Size), c.Size)
	end := from + min(to-from, c.MaxBytes, g.wire/3+1) // a byte takes 3 of the response at least
	if end <= from {
		c.setContent(nil)
		return nil
	}
	w, err := readWindow(f, from, end, c.Size)
	if err != nil {
		return err
	}
	room := 0
	if end == to {
		room = int(min(c.MaxBytes-(end-from), aside))
	}
	body, lead := w.body(room)
	n := g.fit(body)
	if g.capped || (end < to && end-from < c.MaxBytes) {
		c.warn("the chunk ended early to fit the response; go on from next_offset")
	}
	if w.lead > 0 || w.cut {
		c.warn("the range cuts a character; in text, content holds the characters that begin in the range")
	}
	c.setContent(body[:n])
	c.NextOffset = from + int64(lead+n)
	return nil
}

// A window is a range of bytes with a few more on either side.
type window struct {
	buf      []byte
	from, to int  // the range in buf
	lead     int  // how many bytes of it end a character that began before
	cut      bool // it ends inside a character, which is last:lastEnd
	whole    bool // that character is all there, not cut by the end of the file
	last     int
	lastEnd  int
}

func readWindow(f *os.File, from, end, size int64) (window, error) {
	start := max(from-aside, 0)
	buf := make([]byte, min(end+aside, size)-start)
	n, err := f.ReadAt(buf, start)
	if err != nil && err != io.EOF {
		return window{}, err
	}
	buf = buf[:n] // less than asked when the file was truncated meanwhile
	w := window{buf: buf, from: min(int(from-start), n), to: min(int(end-start), n)}
	if _, after, whole, ok := straddling(buf, w.from); ok && whole {
		w.lead = after - w.from
	}
	if w.from+w.lead < w.to {
		w.last, w.lastEnd, w.whole, w.cut = straddling(buf, w.to)
	}
	return w, nil
}

// straddling finds the character in b that begins before at and ends after it,
// or that the end of b, being at, cuts: then it is not whole.
func straddling(b []byte, at int) (begin, end int, whole, ok bool) {
	for begin = at - 1; begin >= max(at-aside, 0); begin-- {
		if !utf8.RuneStart(b[begin]) {
			continue
		}
		r, n := utf8.DecodeRune(b[begin:])
		if r != utf8.RuneError || n > 1 {
			return begin, begin + n, true, begin+n > at
		}
		return begin, len(b), false, !utf8.FullRune(b[begin:])
	}
	return 0, 0, false, false
}

// body returns what the chunk holds, at most room bytes beyond the range, and
// how many bytes of the range before it are left out.
func (w window) body(room int) (body []byte, lead int) {
	from, to, rawTo := w.from+w.lead, w.to, w.to
	switch {
	case !w.cut:
	case w.whole && w.lastEnd-w.to <= room:
		to = w.lastEnd
	case w.last > from:
		to = w.last
		if w.whole && room == 0 {
			rawTo = to
		}
	case w.whole:
		to = w.lastEnd // nothing else is there, and the next chunk must move on
	}
	if text := w.buf[from:max(from, to)]; utf8.Valid(text) {
		return text, w.lead
	}
	return w.buf[w.from:rawTo], 0
}
