package mcpserver_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"pi-mcp/store"
)

// limit bounds one result, encoded, with the little that is around the two copies.
const limit = 8<<20 + 100

// sized makes a call that has to succeed, and to fit.
func (c *wire) sized(tool, arguments string, into any) {
	c.t.Helper()
	r := c.call(tool, arguments)
	if r.Error != nil {
		c.t.Fatal(r.Error)
	}
	if n := len(r.Result); n > limit {
		c.t.Fatalf("%s of %.200s takes %d bytes", tool, arguments, n)
	}
	res := struct {
		IsError           bool
		StructuredContent any
	}{StructuredContent: into}
	must(c.t, json.Unmarshal(r.Result, &res))
	if res.IsError {
		c.t.Fatalf("%s of %.200s is refused: %.300s", tool, arguments, r.Result)
	}
}

// worst are logs of 20 MiB whose bytes JSON or base64 blow up, each as something
// that is repeated.
var worst = map[string]string{
	"control characters": "\x01", "quotes": `"\`, "no text": "\xff",
	"lines": strings.Repeat("<\x1f>&", 1023) + "\u2028\n",
}

func worstLog(name string) []byte { return bytes.Repeat([]byte(worst[name]), 20<<20/len(worst[name])) }

// A part is what these tests want to know of an answer of read.
type part struct {
	Content, Encoding string
	LineCount         int64 `json:"line_count"`
	NextLine          int64 `json:"next_line"`
	NextOffset        int64 `json:"next_offset"`
	EOF               bool
	Warnings          []string
}

// bytes is the content as it is in the file.
func (k part) bytes(t *testing.T) []byte {
	t.Helper()
	if k.Encoding != "base64" {
		return []byte(k.Content)
	}
	b, err := base64.StdEncoding.DecodeString(k.Content)
	must(t, err)
	return b
}

func (k part) early() bool {
	return strings.Contains(strings.Join(k.Warnings, " "), "fit the response")
}

// Whatever is in a log, what is read of it stays below the cap, and a chunk that the
// cap has ended can be gone on from.
func TestReadStaysBelowCap(t *testing.T) {
	w := newWorld(t)
	c := w.wire()
	c.greet("2025-11-25")
	for name := range worst {
		t.Run(name, func(t *testing.T) {
			c.t = t
			id, log := newID(t), worstLog(name)
			w.shelve(id, log)
			var first, next part
			c.sized("read", fmt.Sprintf(`{"agent_id":%q,"bytes_from":0,"max_bytes":%d}`, id, 10<<20), &first)
			got := first.bytes(t)
			if len(got) < 400<<10 || !bytes.HasPrefix(log, got) || first.NextOffset != int64(len(got)) || first.EOF || !first.early() {
				t.Fatalf("%d bytes, the next at %d, end %v, warnings %q", len(got), first.NextOffset, first.EOF, first.Warnings)
			}
			c.sized("read", fmt.Sprintf(`{"agent_id":%q,"bytes_from":%d,"max_bytes":4096}`, id, first.NextOffset), &next)
			more := next.bytes(t)
			if len(more) == 0 || !bytes.HasPrefix(log[len(got):], more) || next.early() {
				t.Errorf("then %d bytes, warnings %q", len(more), next.Warnings)
			}
		})
	}
}

// By lines it is the same.
func TestReadLinesStaysBelowCap(t *testing.T) {
	w := newWorld(t)
	c := w.wire()
	c.greet("2025-11-25")
	id := newID(t)
	w.shelve(id, worstLog("lines"))
	var k part
	line := []byte(worst["lines"])
	for _, most := range []int{10 << 20, 10_000} {
		from := k.NextLine
		c.sized("read", fmt.Sprintf(`{"agent_id":%q,"lines_from":%d,"max_bytes":%d}`, id, from, most), &k)
		if k.LineCount == 0 || k.NextLine != from+k.LineCount || k.NextOffset != 4096*k.NextLine || k.EOF || k.early() != (from == 0) {
			t.Errorf("from line %d: %d lines, the next is %d at %d; warnings %q", from, k.LineCount, k.NextLine, k.NextOffset, k.Warnings)
		}
		if !bytes.Equal([]byte(k.Content), bytes.Repeat(line, int(k.LineCount))) {
			t.Errorf("from line %d: the content differs", from)
		}
	}
}

func TestGrepStaysBelowCap(t *testing.T) {
	w := newWorld(t)
	c := w.wire()
	c.greet("2025-11-25")
	id := newID(t)
	w.shelve(id, worstLog("lines"))
	must(t, os.WriteFile(filepath.Join(w.files.Paths(id).Tmp, "a"), bytes.Repeat([]byte("plain text\n"), 1<<20), 0o600))
	arguments := object(t, args{"agent_id": id, "args": []string{"-a", "-e", "", "-e", strings.Repeat("\x01", 60<<10)}})
	for tool, least := range map[string]int{"grep": 300 << 10, "grep_tmp": 1 << 20} { // grep prints a MiB at most
		var out struct {
			Stdout    string
			Truncated bool `json:"stdout_truncated"`
		}
		c.sized(tool, arguments, &out)
		if len(out.Stdout) < least || !out.Truncated {
			t.Errorf("%s returns %d bytes, truncated: %v", tool, len(out.Stdout), out.Truncated)
		}
	}
}

// A list of more than fits ends with a cursor, and its pages have every agent
// once, the newest first.
func TestListStaysBelowCap(t *testing.T) {
	w := newWorld(t)
	c := w.wire()
	c.greet("2025-11-25")
	const agents = 1500
	for i := range agents {
		id := uuid.UUID{0x01, 0xa0, 14: byte(i >> 8), 15: byte(i)}
		w.insert(id.String(), func(a *store.Agent) {
			a.Name, a.Provider, a.Model = strings.Repeat(`"`, 200), strings.Repeat(`\`, 200), strings.Repeat("<", 200)
		})
	}
	var page struct {
		Count, Total int
		Agents       []struct {
			AgentID string `json:"agent_id"`
		}
		NextCursor *string `json:"next_cursor"`
	}
	seen, last := 0, "~"
	for pages, arguments := 1, `{}`; ; pages++ {
		c.sized("list", arguments, &page)
		if page.Count != len(page.Agents) || page.Count == 0 || page.Total != agents {
			t.Fatalf("page %d has %d agents, says %d of %d", pages, len(page.Agents), page.Count, page.Total)
		}
		for _, a := range page.Agents {
			if a.AgentID >= last {
				t.Fatalf("%s comes after %s", a.AgentID, last)
			}
			last = a.AgentID
		}
		seen += page.Count
		if page.NextCursor == nil {
			if seen != agents || pages < 2 {
				t.Errorf("%d pages have %d agents", pages, seen)
			}
			return
		}
		arguments, page.NextCursor = object(t, args{"cursor": *page.NextCursor}), nil
	}
}

// What an abort takes out of the queue is shortened before it is refused: by then
// it is nowhere else.
func TestAbortStaysBelowCap(t *testing.T) {
	f := newFixture(t)
	message := strings.Repeat("<", 1<<20)
	for _, m := range []string{`![{"turn":"well","hold":"/tmp/never"}]`, message, message} {
		f.taken("send_message", object(t, args{"agent_id": f.id, "message": m}))
	}
	var out struct {
		Cleared   []string
		Truncated bool `json:"cleared_truncated"`
	}
	f.c.sized("abort", object(t, args{"agent_id": f.id}), &out)
	if len(out.Cleared) != 2 || !out.Truncated || len(out.Cleared[1]) < 100<<10 || !strings.HasPrefix(message, out.Cleared[1]) {
		t.Errorf("%d messages, truncated: %v", len(out.Cleared), out.Truncated)
	}
}
