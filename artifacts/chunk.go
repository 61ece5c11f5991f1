package artifacts

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"unicode/utf8"
)

// Limits of one Chunk. DefaultCap is the share of an 8 MiB response that is
// left for the content.
const (
	DefaultMaxBytes = 1024
	MaxBytes        = 10 << 20
	DefaultCap      = 8<<20 - 64<<10
)

// A Range says what part of a file to read: lines or bytes, not both, from the
// first line when neither is given. Ends are exclusive, the first line is 0.
type Range struct {
	LinesFrom *int64 `json:"lines_from,omitempty" jsonschema:"first line to read, counted from 0"`
	LinesTo   *int64 `json:"lines_to,omitempty" jsonschema:"first line not to read"`
	BytesFrom *int64 `json:"bytes_from,omitempty" jsonschema:"first byte to read, counted from 0; not together with lines"`
	BytesTo   *int64 `json:"bytes_to,omitempty" jsonschema:"first byte not to read"`
	MaxLines  *int64 `json:"max_lines,omitempty" jsonschema:"at most this many lines"`
	MaxBytes  *int64 `json:"max_bytes,omitempty" jsonschema:"at most this many bytes of content, 1024 by default, up to 10 MiB"`

	// Cap bounds what the content takes in an encoded response that carries it
	// twice, as JSON and as JSON quoted in JSON, in bytes. 0 is DefaultCap.
	Cap int64 `json:"-"`
}

// A Chunk is a part of a file. What follows it is at NextOffset, exactly. It
// is also at NextLine, with one exception: a first line that is longer than
// the chunk may be is begun and not ended, and NextLine is the line after it,
// so that a reader who goes by lines moves on. TruncatedRegions tells the part
// that such a reader misses.
//
// A last line without a newline is a line; to follow a file that grows, go on
// from NextOffset.
type Chunk struct {
	Path string `json:"path" jsonschema:"the file: a log's name, or a path relative to the agent's tmp"`
	Mode string `json:"mode" jsonschema:"lines or bytes"`
	Size int64  `json:"size" jsonschema:"length of the file in bytes"`

	// In line mode LinesFrom and NextLine are set and LinesTo points to the
	// argument, which is null when the range is open; in byte mode they are
	// left out, and BytesFrom and BytesTo are there in the same way.
	LinesFrom *int64  `json:"lines_from,omitempty"`
	LinesTo   **int64 `json:"lines_to,omitempty"`
	BytesFrom *int64  `json:"bytes_from,omitempty"`
	BytesTo   **int64 `json:"bytes_to,omitempty"`

	LineCount  int64  `json:"line_count" jsonschema:"lines in content; 0 in byte mode"`
	NextLine   *int64 `json:"next_line,omitempty" jsonschema:"lines_from to go on with; in byte mode left out"`
	NextOffset int64  `json:"next_offset" jsonschema:"bytes_from to go on with: the byte after content"`
	EOF        bool   `json:"eof" jsonschema:"next_offset is the end of the file"`

	MaxLines *int64 `json:"max_lines"`
	MaxBytes int64  `json:"max_bytes"`

	Encoding string `json:"encoding" jsonschema:"utf-8, or base64 when the bytes are not UTF-8"`
	Content  string `json:"content"`

	TruncatedRegions []Region `json:"truncated_regions" jsonschema:"what content leaves out; read it with bytes_from and bytes_to"`
	Warnings         []string `json:"warnings"`
}

// A Region is a range of bytes in a line that a Chunk leaves out.
type Region struct {
	BytesFrom int64 `json:"bytes_from"`
	BytesTo   int64 `json:"bytes_to"`
	Line      int64 `json:"line"`
}

// ReadLog reads a part of a log. Whoever writes to the log meanwhile does not
// change the answer: the file ends where it ended when it was opened.
func (d *Dir) ReadLog(ctx context.Context, name Stream, r Range) (Chunk, error) {
	if err := name.check(); err != nil {
		return Chunk{}, err
	}
	if err := r.check(); err != nil {
		return Chunk{}, err
	}
	f, err := openRegular(d.root, name.file())
	if err != nil {
		return Chunk{}, fmt.Errorf("cannot open %s: %w", name.file(), err)
	}
	defer f.Close()
	return r.read(ctx, f, name.file())
}

// ReadTmp reads a part of a regular file in the agent's tmp. A link is
// followed when it is relative and stays in tmp. Memory is bounded whatever
// the file; a line without end is read through to find where it ends, which
// ctx can cut short.
func (d *Dir) ReadTmp(ctx context.Context, path string, r Range) (Chunk, error) {
	if path == "" {
		return Chunk{}, refuse("path", "pass the file to read, relative to the agent's tmp; list_tmp shows what there is")
	}
	at, err := cleanTmp("path", path)
	if err != nil {
		return Chunk{}, err
	}
	if err := r.check(); err != nil {
		return Chunk{}, err
	}
	tmp, err := d.tmp()
	if err != nil {
		return Chunk{}, fmt.Errorf("cannot open the agent's tmp: %w", err)
	}
	defer tmp.Close()
	f, err := openTmpFile(tmp, "path", at)
	if err != nil {
		return Chunk{}, err
	}
	defer f.Close()
	return r.read(ctx, f, at)
}

func (r Range) byteMode() bool { return r.BytesFrom != nil || r.BytesTo != nil }

func (r Range) check() error {
	if r.byteMode() && (r.LinesFrom != nil || r.LinesTo != nil) {
		return refuse("bytes_from", "a range is in lines or in bytes; leave out lines_from and lines_to, or bytes_from and bytes_to")
	}
	for _, a := range []struct {
		name  string
		value *int64
		least int64
	}{
		{"lines_from", r.LinesFrom, 0}, {"lines_to", r.LinesTo, value(r.LinesFrom, 0)},
		{"bytes_from", r.BytesFrom, 0}, {"bytes_to", r.BytesTo, value(r.BytesFrom, 0)},
		{"max_lines", r.MaxLines, 1}, {"max_bytes", r.MaxBytes, 1},
	} {
		if a.value != nil && *a.value < a.least {
			return refuse(a.name, "%d is too small; pass at least %d", *a.value, a.least)
		}
	}
	if n := value(r.MaxBytes, 0); n > MaxBytes {
		return refuse("max_bytes", "%d is too large; pass at most %d and go on from next_offset", n, MaxBytes)
	}
	return nil
}

func (r Range) read(ctx context.Context, f *os.File, path string) (Chunk, error) {
	info, err := f.Stat()
	if err != nil {
		return Chunk{}, fmt.Errorf("cannot read %s: %w", path, err)
	}
	c := Chunk{
		Path:             path,
		Size:             info.Size(),
		MaxLines:         r.MaxLines,
		MaxBytes:         value(r.MaxBytes, DefaultMaxBytes),
		TruncatedRegions: []Region{},
		Warnings:         []string{},
	}
	if r.byteMode() {
		err = c.readBytes(f, r)
	} else {
		err = c.readLines(ctx, f, r)
	}
	if err != nil {
		if ctx.Err() != nil {
			return Chunk{}, ctx.Err()
		}
		return Chunk{}, fmt.Errorf("cannot read %s: %w", path, err)
	}
	c.EOF = c.NextOffset >= c.Size
	return c, nil
}

// setContent chooses the encoding by what b is.
func (c *Chunk) setContent(b []byte) {
	if utf8.Valid(b) {
		c.Encoding, c.Content = "utf-8", string(b)
	} else {
		c.Encoding, c.Content = "base64", base64.StdEncoding.EncodeToString(b)
	}
}

func (c *Chunk) warn(format string, v ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, v...))
}

func value(p *int64, def int64) int64 {
	if p == nil {
		return def
	}
	return *p
}
