package artifacts_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"pi-mcp/artifacts"
)

// FuzzRanges reads a file in successive chunks, by lines and by bytes, and puts
// it together again.
func FuzzRanges(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "a\nb", "one\ntwo\n\nthree\r\n", "é€\U0001F600\n\xff\n", "ab\xe2\x82", "\xf0\x9f\x98", "\x00\"\\<\u2028",
		strings.Repeat("x", 12_000) + "\n" + strings.Repeat("é", 11_000), strings.Repeat("\xff", 70_000) + "\nend",
		"\xc3\xa9\xff\xc3\xa9\n\xa9\xc3",
	} {
		f.Add([]byte(seed), uint16(1), uint16(0), uint16(0))
		f.Add([]byte(seed), uint16(7), uint16(2), uint16(40))
		f.Add([]byte(seed), uint16(60_000), uint16(0), uint16(65_535))
		f.Add([]byte(seed), uint16(300), uint16(3), uint16(9_000))
	}
	d, p := newAgent(f)
	f.Fuzz(func(t *testing.T, content []byte, maxBytes, maxLines, limit uint16) {
		if len(content) > 1000*int(min(maxBytes, (limit-1)/13)+1) {
			return // too many chunks to try many files; a limit of 0 is the default
		}
		check(t, os.WriteFile(p.Tmp+"/file", content, 0o600))
		r := artifacts.Range{MaxBytes: num(max(int64(maxBytes), 1)), Cap: int64(limit)}
		read := func(r artifacts.Range) artifacts.Chunk {
			c, err := d.ReadTmp(t.Context(), "file", r)
			check(t, err)
			if c.Size != int64(len(content)) || c.EOF != (c.NextOffset >= c.Size) || !utf8.ValidString(c.Content) {
				t.Fatalf("%+v", c)
			}
			return c
		}
		byBytes(t, content, r, read)
		if maxLines > 0 {
			r.MaxLines = num(int64(maxLines))
		}
		byLines(t, content, r, read)
	})
}

func byBytes(t *testing.T, content []byte, r artifacts.Range, read func(artifacts.Range) artifacts.Chunk) {
	var got strings.Builder
	for at := int64(0); ; {
		r.BytesFrom = &at
		c := read(r)
		raw := decoded(t, c)
		if over := int64(len(raw)) - *r.MaxBytes; over >= utf8.UTFMax {
			t.Fatalf("%d bytes more than asked for", over)
		}
		got.WriteString(raw)
		if c.EOF {
			break
		}
		if c.NextOffset <= at {
			t.Fatalf("no way on from %d", at)
		}
		at = c.NextOffset
	}
	if got.String() != string(content) {
		t.Fatalf("by bytes: %q, want %q", got.String(), content)
	}
}

// byLines compares each chunk with the file without the regions that the chunk
// says it leaves out, and the chunks with each other.
func byLines(t *testing.T, content []byte, r artifacts.Range, read func(artifacts.Range) artifacts.Chunk) {
	total := int64(strings.Count(string(content), "\n"))
	if n := len(content); n > 0 && content[n-1] != '\n' {
		total++
	}
	for line, start := int64(0), int64(0); ; {
		r.LinesFrom = num(line)
		c := read(r)
		want, end := "", start
		for _, region := range c.TruncatedRegions {
			want += string(content[end:region.BytesFrom])
			if region.BytesFrom == c.NextOffset { // the line was cut to fit
				end = region.BytesTo
				break
			}
			if c.Encoding == "utf-8" {
				want += fmt.Sprintf("...<truncated %d chars>", chars(content[region.BytesFrom:region.BytesTo]))
			}
			end = region.BytesTo
		}
		if c.NextOffset > end {
			want += string(content[end:c.NextOffset])
			end = c.NextOffset
		}
		if got := decoded(t, c); got != want {
			t.Fatalf("from line %d: %.80q, want %.80q", line, got, want)
		}
		if c.LineCount != *c.NextLine-line || (r.MaxLines != nil && c.LineCount > *r.MaxLines) {
			t.Fatalf("%d lines from %d to %d", c.LineCount, line, *c.NextLine)
		}
		if line, start = *c.NextLine, end; start >= int64(len(content)) {
			break
		}
		if c.LineCount == 0 {
			t.Fatalf("no way on from line %d", line)
		}
	}
	if got := read(artifacts.Range{LinesFrom: num(total)}); got.Content != "" || len(got.Warnings) > 0 {
		t.Fatalf("after %d lines: %+v", total, got)
	}
}

// chars counts what begins a character.
func chars(b []byte) (n int) {
	for _, c := range b {
		if c&0xC0 != 0x80 {
			n++
		}
	}
	return n
}

// FuzzGrepArgs runs the real grep, outside of any cage, with whatever arguments
// are taken: it must not read the file beside the log.
func FuzzGrepArgs(f *testing.F) {
	for _, seed := range []string{
		"-n x", "-e x", "-A", "-vA decoy", "--file=decoy", "-f decoy", "-vf decoy x", "x decoy", "-v x decoy", "-r e .",
		"-r e", "-- e decoy", "--color e", "-ABC e", "-e -- e", "-v --exclude-from decoy x", "-ve x decoy", "-vd recurse x .",
	} {
		f.Add(seed)
	}
	dir := f.TempDir()
	write(f, filepath.Join(dir, "stdout.log"), "log\n")
	write(f, filepath.Join(dir, "decoy"), "secret\n")
	if out, _ := run(f, dir, []string{"-r", "e"}); !strings.Contains(out, "secret") {
		f.Fatalf("grep does not find the decoy: %q", out)
	}
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Fields(line)
		argv, err := artifacts.GrepArgs(args, "stdout.log")
		if err != nil {
			refused(t, err, "args")
			return
		}
		if out, _ := run(t, dir, argv); strings.Contains(out, "secret") {
			t.Fatalf("%q gave %q", argv, out)
		}
	})
}
