package artifacts_test

import (
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/artifacts"
)

// decoded is the bytes that a chunk stands for.
func decoded(t testing.TB, c artifacts.Chunk) string {
	t.Helper()
	if c.Encoding == "utf-8" {
		return c.Content
	}
	raw, err := base64.StdEncoding.DecodeString(c.Content)
	check(t, err)
	return string(raw)
}

// twice is the size of a response that carries v as JSON and as quoted JSON.
func twice(t testing.TB, v any) int {
	t.Helper()
	once, err := json.Marshal(v)
	check(t, err)
	again, err := json.Marshal(string(once))
	check(t, err)
	return len(once) + len(again)
}

func TestByteRanges(t *testing.T) {
	read := reader(t)
	const text = "aé€\U0001F600z" // at 0, 1, 3, 6, 10; 11 bytes
	for _, c := range []struct {
		name     string
		content  string
		from, to *int64
		max      *int64
		want     string
		encoding string
		next     int64
		eof      bool
	}{
		{"all", text, num(0), nil, nil, text, "utf-8", 11, true},
		{"to alone", text, nil, num(3), nil, "aé", "utf-8", 3, false},
		{"from alone", text, num(6), nil, nil, "\U0001F600z", "utf-8", 11, true},
		{"an empty range", text, num(3), num(3), nil, "", "utf-8", 3, false},
		{"beyond the end", text, num(20), nil, nil, "", "utf-8", 20, true},
		{"to beyond the end", text, num(10), num(99), nil, "z", "utf-8", 11, true},
		{"max_bytes", text, num(0), nil, num(3), "aé", "utf-8", 3, false},
		{"begins inside a character", text, num(2), nil, nil, "€\U0001F600z", "utf-8", 11, true},
		{"begins late inside a character", text, num(9), nil, nil, "z", "utf-8", 11, true},
		{"bytes_to inside a character", text, num(0), num(4), nil, "aé€", "utf-8", 6, false},
		{"max_bytes inside a character", text, num(0), nil, num(4), "aé", "utf-8", 3, false},
		{"max_bytes and bytes_to there", text, num(0), num(4), num(4), "aé", "utf-8", 3, false},
		{"max_bytes below a character", text, num(6), nil, num(1), "\U0001F600", "utf-8", 10, false},
		{"only inside a character", text, num(7), num(9), nil, "", "utf-8", 10, false},
		{"inside two characters", text, num(4), num(8), nil, "\U0001F600", "utf-8", 10, false},
		{"no text", "a\xffb", num(0), nil, nil, "a\xffb", "base64", 3, true},
		{"no text, a part", "a\xffb", num(1), num(2), nil, "\xff", "base64", 2, false},
		{"text beside it", "a\xffb", num(2), nil, nil, "b", "utf-8", 3, true},
		{"a stray continuation", "a\x80b", num(1), nil, nil, "\x80b", "base64", 3, true},
		{"binary as asked", "\xff\xc3\xa9\xff", num(0), num(2), nil, "\xff\xc3", "base64", 2, false},
		{"binary from inside", "\xff\xc3\xa9\xff", num(2), nil, nil, "\xa9\xff", "base64", 4, true},
		{"the file ends inside a character", "ab\xe2\x82", num(0), nil, nil, "ab", "utf-8", 2, false},
		{"nothing but that", "ab\xe2\x82", num(2), nil, nil, "\xe2\x82", "base64", 4, true},
		{"a surrogate", "a\xed\xa0\x80", num(0), nil, nil, "a\xed\xa0\x80", "base64", 4, true},
		{"U+FFFD itself", "a\uFFFDb", num(0), num(2), nil, "a\uFFFD", "utf-8", 4, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := read(c.content, artifacts.Range{BytesFrom: c.from, BytesTo: c.to, MaxBytes: c.max})
			if raw := decoded(t, got); raw != c.want || got.Encoding != c.encoding {
				t.Errorf("%q in %s, want %q in %s", raw, got.Encoding, c.want, c.encoding)
			}
			if got.NextOffset != c.next || got.EOF != c.eof || got.Mode != "bytes" || got.LineCount != 0 {
				t.Errorf("next_offset %d, eof %v, %s", got.NextOffset, got.EOF, got.Mode)
			}
			if got.LinesFrom != nil || got.LinesTo != nil || got.NextLine != nil || *got.BytesTo != c.to {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestAdjoiningByteRangesGiveEveryCharacterOnce(t *testing.T) {
	read := reader(t)
	const text = "aé€\U0001F600zé€\U0001F600"
	for width := int64(1); width < int64(len(text)); width++ {
		whole := ""
		for from := int64(0); from < int64(len(text)); from += width {
			c := read(text, artifacts.Range{BytesFrom: num(from), BytesTo: num(from + width)})
			if c.Encoding != "utf-8" {
				t.Errorf("width %d from %d is %s", width, from, c.Encoding)
			}
			whole += c.Content
		}
		if whole != text {
			t.Errorf("width %d: %q", width, whole)
		}
	}
}

func TestReadLog(t *testing.T) {
	d, p := newAgent(t)
	write(t, p.StdoutLog, "out\n")
	write(t, p.ErrorLog, "err\n")
	for stream, want := range map[artifacts.Stream][2]string{
		artifacts.Stdout: {"stdout.log", "out\n"}, artifacts.Errors: {"errors.log", "err\n"},
	} {
		c, err := d.ReadLog(t.Context(), stream, artifacts.Range{})
		check(t, err)
		if diff := cmp.Diff(want, [2]string{c.Path, c.Content}); diff != "" {
			t.Error(diff)
		}
	}
	_, err := d.ReadLog(t.Context(), "stderr", artifacts.Range{})
	refused(t, err, "stream", "stdout", "errors")
}

func TestRangesThatMakeNoSense(t *testing.T) {
	read := reader(t)
	d, p := newAgent(t)
	write(t, p.Tmp+"/file", "text")
	for arg, r := range map[string]artifacts.Range{
		"bytes_from": {BytesFrom: num(0), LinesFrom: num(0)},
		"bytes_to":   {BytesFrom: num(5), BytesTo: num(4)},
		"lines_from": {LinesFrom: num(-1)},
		"lines_to":   {LinesFrom: num(5), LinesTo: num(4)},
		"max_lines":  {MaxLines: num(0)},
		"max_bytes":  {MaxBytes: num(artifacts.MaxBytes + 1)},
	} {
		_, err := d.ReadTmp(t.Context(), "file", r)
		refused(t, err, arg)
		_, err = d.ReadLog(t.Context(), artifacts.Stdout, r)
		refused(t, err, arg)
	}
	for _, r := range []artifacts.Range{{MaxBytes: num(0)}, {BytesTo: num(0), LinesTo: num(0)}, {BytesFrom: num(-1)}} {
		if _, err := d.ReadTmp(t.Context(), "file", r); err == nil {
			t.Errorf("took %+v", r)
		}
	}
	const top = 1<<63 - 1
	for _, r := range []artifacts.Range{ // the controls, at the limits
		{MaxBytes: num(artifacts.MaxBytes), MaxLines: num(top)}, {LinesTo: num(top)},
		{LinesFrom: num(top)}, {BytesTo: num(top)}, {BytesFrom: num(top), BytesTo: num(top)},
	} {
		_, err := d.ReadTmp(t.Context(), "file", r)
		check(t, err)
	}
	c := read("text", artifacts.Range{BytesFrom: num(0), MaxLines: num(1)})
	if len(c.Warnings) != 1 {
		t.Errorf("max_lines in byte mode: %q", c.Warnings)
	}
}
