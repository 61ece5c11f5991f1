package artifacts_test

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"pi-mcp/artifacts"
)

// logged writes parts to the stdout log, opened anew before each, and returns
// the file.
func logged(t *testing.T, limit int64, parts ...string) string {
	t.Helper()
	d, p := newAgent(t)
	for _, part := range parts {
		l, err := d.Log(artifacts.Stdout, limit)
		check(t, err)
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("Write: %d, %v", n, err)
		}
		if size := d.Sizes().Stdout; l.Size() != size {
			t.Errorf("Size is %d, the file has %d", l.Size(), size)
		}
		check(t, l.Close())
	}
	content, err := os.ReadFile(p.StdoutLog)
	check(t, err)
	return string(content)
}

func TestF21LogStopsAtItsLimit(t *testing.T) {
	const mark = "[pi-mcp: this log reached its limit of 10 bytes; later output is not kept]\n"
	for _, c := range []struct {
		name  string
		parts []string
		want  string
	}{
		{"below", []string{"12345", "678"}, "12345678"},
		{"exactly", []string{"12345", "67890"}, "1234567890"},
		{"exactly, then more", []string{"12345", "67890", "x", "y"}, "1234567890\n" + mark},
		{"exactly, then nothing", []string{"1234567890", ""}, "1234567890"},
		{"cut", []string{"12345", "6789012345", "x"}, "1234567890\n" + mark},
		{"cut after a line", []string{"12345", "6789\n12345", "x"}, "123456789\n" + mark},
		{"at the end of a line, then more", []string{"123456789\n", "x", "x"}, "123456789\n" + mark},
		{"all at once", []string{strings.Repeat("x", 100)}, "xxxxxxxxxx\n" + mark},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := logged(t, 10, c.parts...); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
	if got := logged(t, 0, strings.Repeat("x", 100), "y"); len(got) != 101 {
		t.Errorf("without a limit: %q", got)
	}
}

func TestALogStaysCappedWithinOneOpening(t *testing.T) {
	d, p := newAgent(t)
	l, err := d.Log(artifacts.Errors, 4)
	check(t, err)
	for range 1000 {
		if n, err := l.Write([]byte("abc\n")); n != 4 || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	check(t, l.Close())
	content, err := os.ReadFile(p.ErrorLog)
	check(t, err)
	if n := strings.Count(string(content), "limit"); n != 1 || int64(len(content)) != l.Size() {
		t.Errorf("%d markers, Size %d: %q", n, l.Size(), content)
	}
}

func TestALoweredLimit(t *testing.T) {
	d, p := newAgent(t)
	write(t, p.StdoutLog, "written without a limit\n")
	l, err := d.Log(artifacts.Stdout, 5)
	check(t, err)
	_, err = l.Write([]byte("more"))
	check(t, err)
	check(t, l.Close())
	l, err = d.Log(artifacts.Stdout, 7) // and changed again
	check(t, err)
	_, err = l.Write([]byte("more"))
	check(t, err)
	check(t, l.Close())
	content, err := os.ReadFile(p.StdoutLog)
	check(t, err)
	if want := "written without a limit\n[pi-mcp: this log reached its limit of 5 bytes; later output is not kept]\n"; string(content) != want {
		t.Errorf("%q", content)
	}
}

func TestLogErrors(t *testing.T) {
	d, p := newAgent(t)
	_, err := d.Log("stderr", 0)
	refused(t, err, "stream", "errors")
	check(t, os.Remove(p.StdoutLog))
	l, err := d.Log(artifacts.Stdout, 0) // made again when it is gone
	check(t, err)
	check(t, l.Close())
	if _, err := l.Write([]byte("x")); err == nil {
		t.Error("wrote to a closed log")
	}
	check(t, os.Remove(p.StdoutLog))
	check(t, os.Symlink(t.TempDir()+"/outside", p.StdoutLog))
	if _, err := d.Log(artifacts.Stdout, 0); err == nil {
		t.Error("followed a link out of the directory")
	}
}

func TestTail(t *testing.T) {
	d, p := newAgent(t)
	for _, c := range []struct {
		content string
		n       int
		want    string
	}{
		{"", 10, ""}, {"abc", 0, ""}, {"abc", -1, ""}, {"abc", 10, "abc"}, {"abc", 2, "bc"},
		{"aéb", 2, "b"}, {"aéb", 3, "éb"}, {"a\U0001F600b", 4, "b"}, {"a\U0001F600b", 5, "\U0001F600b"},
		{"a\xffb", 3, "b"}, {"a\xffb", 9, "a\uFFFDb"}, {"\x80\x80\x80x", 9, "\uFFFDx"}, {"ab\xe2\x82", 9, "ab\uFFFD"},
	} {
		write(t, p.ErrorLog, c.content)
		got := d.Tail(artifacts.Errors, c.n)
		if got != c.want || !utf8.ValidString(got) || len(got) > max(c.n, 0) {
			t.Errorf("Tail(%q, %d) = %q, want %q", c.content, c.n, got, c.want)
		}
	}
	if got := d.Tail("stderr", 5); got != "" {
		t.Errorf("an unknown stream: %q", got)
	}
}
