package artifacts_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/artifacts"
)

// reader returns a function that reads from a file of some content in an
// agent's tmp.
func reader(t testing.TB) func(content string, r artifacts.Range) artifacts.Chunk {
	d, p := newAgent(t)
	return func(content string, r artifacts.Range) artifacts.Chunk {
		t.Helper()
		write(t, p.Tmp+"/file", content)
		c, err := d.ReadTmp(t.Context(), "file", r)
		check(t, err)
		return c
	}
}

func TestLineRanges(t *testing.T) {
	read := reader(t)
	const five = "zero\none\ntwo\nthree\nfour"
	for _, c := range []struct {
		name       string
		content    string
		r          artifacts.Range
		want       string
		count      int64
		next, then int64 // next_line, next_offset
		eof        bool
	}{
		{"all", five, artifacts.Range{}, five, 5, 5, 23, true},
		{"empty file", "", artifacts.Range{}, "", 0, 0, 0, true},
		{"one newline", "\n", artifacts.Range{}, "\n", 1, 1, 1, true},
		{"from", five, artifacts.Range{LinesFrom: num(3)}, "three\nfour", 2, 5, 23, true},
		{"to", five, artifacts.Range{LinesTo: num(2)}, "zero\none\n", 2, 2, 9, false},
		{"between", five, artifacts.Range{LinesFrom: num(1), LinesTo: num(3)}, "one\ntwo\n", 2, 3, 13, false},
		{"nothing between", five, artifacts.Range{LinesFrom: num(2), LinesTo: num(2)}, "", 0, 2, 9, false},
		{"max_lines", five, artifacts.Range{LinesFrom: num(1), MaxLines: num(1)}, "one\n", 1, 2, 9, false},
		{"max_lines and to", five, artifacts.Range{LinesTo: num(4), MaxLines: num(9)}, "zero\none\ntwo\nthree\n", 4, 4, 19, false},
		{"max_bytes between lines", five, artifacts.Range{MaxBytes: num(12)}, "zero\none\n", 2, 2, 9, false},
		{"max_bytes at a line's end", five, artifacts.Range{MaxBytes: num(9)}, "zero\none\n", 2, 2, 9, false},
		{"the last line", five, artifacts.Range{LinesFrom: num(4)}, "four", 1, 5, 23, true},
		{"at the end", "a\nb\n", artifacts.Range{LinesFrom: num(2)}, "", 0, 2, 4, true},
		{"carriage returns", "a\r\nb\r\n", artifacts.Range{MaxLines: num(1)}, "a\r\n", 1, 1, 3, false},
		{"U+2028 is no newline", "a\u2028b\nc", artifacts.Range{MaxLines: num(1)}, "a\u2028b\n", 1, 1, 6, false},
		{"NUL bytes are text", "a\x00b\n", artifacts.Range{}, "a\x00b\n", 1, 1, 4, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := read(c.content, c.r)
			from := num(0)
			if c.r.LinesFrom != nil {
				from = c.r.LinesFrom
			}
			most := int64(1024)
			if c.r.MaxBytes != nil {
				most = *c.r.MaxBytes
			}
			want := artifacts.Chunk{
				Path: "file", Mode: "lines", Size: int64(len(c.content)), LinesFrom: from, LinesTo: &c.r.LinesTo,
				LineCount: c.count, NextLine: &c.next, NextOffset: c.then, EOF: c.eof, MaxLines: c.r.MaxLines,
				MaxBytes: most, Encoding: "utf-8", Content: c.want,
				TruncatedRegions: []artifacts.Region{}, Warnings: []string{},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLinesBeyondTheEnd(t *testing.T) {
	read := reader(t)
	got := read("a\nb", artifacts.Range{LinesFrom: num(7)})
	if got.Content != "" || !got.EOF || *got.NextLine != 7 || got.NextOffset != 3 {
		t.Errorf("%+v", got)
	}
	if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "2 lines") {
		t.Errorf("warnings: %q", got.Warnings)
	}
}

func TestAFirstLineThatDoesNotFit(t *testing.T) {
	read := reader(t)
	got := read("0123456789é123\nnext\n", artifacts.Range{MaxBytes: num(11)})
	if got.Content != "0123456789" || got.LineCount != 1 || *got.NextLine != 1 || got.NextOffset != 10 || got.EOF {
		t.Errorf("%+v", got)
	}
	want := []artifacts.Region{{BytesFrom: 10, BytesTo: 16, Line: 0}}
	if diff := cmp.Diff(want, got.TruncatedRegions); diff != "" || len(got.Warnings) != 1 {
		t.Errorf("%s %q", diff, got.Warnings)
	}
	rest := read("0123456789é123\nnext\n", artifacts.Range{BytesFrom: num(10), BytesTo: num(16)})
	if rest.Content != "é123\n" {
		t.Errorf("the region holds %q", rest.Content)
	}
	if one := read("é\n", artifacts.Range{MaxBytes: num(1)}); one.Content != "é" || one.NextOffset != 2 {
		t.Errorf("a character larger than max_bytes: %+v", one)
	}
}

func TestLongLinesAreShortened(t *testing.T) {
	read := reader(t)
	for _, char := range []string{"x", "é", "\U0001F600"} {
		long := strings.Repeat(char, 25_000)
		content := "short\n" + long + "\n" + strings.Repeat(char, 10_000) + "\n" + long
		got := read(content, artifacts.Range{MaxBytes: num(1 << 20)})
		head := strings.Repeat(char, 10_000)
		mark := "...<truncated 15000 chars>"
		if want := "short\n" + head + mark + "\n" + head + "\n" + head + mark; got.Content != want {
			t.Errorf("%q: content of %d bytes, want %d", char, len(got.Content), len(want))
		}
		w := int64(len(char))
		second := 6 + 25_000*w + 1 + 10_000*w + 1
		want := []artifacts.Region{
			{BytesFrom: 6 + 10_000*w, BytesTo: 6 + 25_000*w, Line: 1},
			{BytesFrom: second + 10_000*w, BytesTo: second + 25_000*w, Line: 3},
		}
		if diff := cmp.Diff(want, got.TruncatedRegions); diff != "" {
			t.Errorf("%q: %s", char, diff)
		}
		if len(got.Warnings) != 2 || !got.EOF || got.LineCount != 4 || got.NextOffset != got.Size {
			t.Errorf("%q: %d lines to %d, %q", char, got.LineCount, got.NextOffset, got.Warnings)
		}
	}
}

func TestALongLineThatDoesNotFitIsLeftForTheNextChunk(t *testing.T) {
	read := reader(t)
	content := "a\n" + strings.Repeat("x", 30_000) + "\n"
	got := read(content, artifacts.Range{MaxBytes: num(10_020)})
	if got.Content != "a\n" || *got.NextLine != 1 || got.NextOffset != 2 || len(got.Warnings) != 0 {
		t.Errorf("%+v", got)
	}
	got = read(content, artifacts.Range{LinesFrom: num(1), MaxBytes: num(500)})
	if len(got.Content) != 500 || got.NextOffset != 502 || *got.NextLine != 2 {
		t.Errorf("%+v", got)
	}
}

func TestLinesThatAreNoText(t *testing.T) {
	read := reader(t)
	got := read("a\xff\nb\n", artifacts.Range{})
	if got.Encoding != "base64" || got.Content != "Yf8KYgo=" || got.LineCount != 2 {
		t.Errorf("%+v", got)
	}
	if text := read("a\xff\nb\n", artifacts.Range{LinesFrom: num(1)}); text.Encoding != "utf-8" || text.Content != "b\n" {
		t.Errorf("the line without it: %+v", text)
	}
	long := read(strings.Repeat("\xff", 20_000), artifacts.Range{MaxBytes: num(1 << 20)})
	if raw := decoded(t, long); raw != strings.Repeat("\xff", 10_000) || len(long.TruncatedRegions) != 1 {
		t.Errorf("a long one has %d bytes and %v", len(raw), long.TruncatedRegions)
	}
}

func TestTheResponseCapEndsAChunk(t *testing.T) {
	read := reader(t)
	for _, char := range []string{"x", `"`, "\x01", "<", "\u2028"} {
		content := strings.Repeat(strings.Repeat(char, 50)+"\n", 200)
		r := artifacts.Range{MaxBytes: num(1 << 20), Cap: 5_000}
		got := read(content, r)
		if size := twice(t, got); size > 5_000+1_500 || got.LineCount < 3 {
			t.Errorf("%q: %d lines took %d bytes", char, got.LineCount, size)
		}
		if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "next_offset") || got.EOF {
			t.Errorf("%q: %q", char, got.Warnings)
		}
		r.BytesFrom = num(got.NextOffset)
		if size := twice(t, read(content, r)); size > 5_000+1_500 {
			t.Errorf("%q: a range of bytes took %d bytes", char, size)
		}
	}
	long := read(strings.Repeat("x", 9_000), artifacts.Range{MaxBytes: num(1 << 20), Cap: 3_000})
	if len(long.Content) != 1_000 || len(long.Warnings) != 2 {
		t.Errorf("a line over the cap: %d bytes, %q", len(long.Content), long.Warnings)
	}
}

func TestF39HugeFilesTakeLittleMemory(t *testing.T) {
	d, p := newAgent(t)
	write(t, p.Tmp+"/sparse", "one\n")
	check(t, os.Truncate(p.Tmp+"/sparse", 1<<40))
	dense, err := os.Create(p.Tmp + "/dense")
	check(t, err)
	for range 64 {
		_, err := dense.WriteString(strings.Repeat("é", 1<<19))
		check(t, err)
	}
	check(t, dense.Close())

	for _, c := range []struct {
		path  string
		r     artifacts.Range
		start string
	}{
		{"sparse", artifacts.Range{}, "one\n"},
		{"sparse", artifacts.Range{LinesFrom: num(1), MaxBytes: num(20_000)}, "\x00\x00"},
		{"sparse", artifacts.Range{LinesFrom: num(9)}, ""},
		{"sparse", artifacts.Range{BytesFrom: num(1 << 39), MaxBytes: num(10)}, "\x00\x00"},
		{"dense", artifacts.Range{}, "éé"},
		{"dense", artifacts.Range{MaxBytes: num(1 << 20)}, "éé"},
		{"dense", artifacts.Range{LinesFrom: num(1)}, ""},
	} {
		name := fmt.Sprint(c.path, c.r.MaxBytes != nil, c.start)
		took := allocated(func() {
			got, err := d.ReadTmp(t.Context(), c.path, c.r)
			check(t, err)
			if !strings.HasPrefix(got.Content, c.start) {
				t.Errorf("%s: %.50q", name, got.Content)
			}
		})
		if took > 4<<20 {
			t.Errorf("%s: allocated %d bytes", name, took)
		}
	}
	got, err := d.ReadTmp(t.Context(), "sparse", artifacts.Range{LinesFrom: num(1), MaxBytes: num(20_000)})
	check(t, err)
	want := []artifacts.Region{{BytesFrom: 10_004, BytesTo: 1 << 40, Line: 1}}
	if diff := cmp.Diff(want, got.TruncatedRegions); diff != "" || !got.EOF {
		t.Errorf("eof %v: %s", got.EOF, diff)
	}
	if want := fmt.Sprintf("...<truncated %d chars>", int64(1<<40)-10_004); !strings.HasSuffix(got.Content, want) {
		t.Errorf("no %q", want)
	}
}

func TestAReadEndsWithItsContext(t *testing.T) {
	d, p := newAgent(t)
	write(t, p.Tmp+"/file", "text")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := d.ReadTmp(ctx, "file", artifacts.Range{}) // the control
	check(t, err)
	cancel()
	if _, err := d.ReadTmp(ctx, "file", artifacts.Range{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := d.ReadTmp(ctx, "file", artifacts.Range{LinesFrom: num(3)}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
