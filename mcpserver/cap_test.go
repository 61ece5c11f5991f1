package mcpserver_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"pi-mcp/store"
)

// limit bounds one response, encoded, with what is around the result.
const limit = 8<<20 + 200

// sized makes a call that has to succeed, and to fit.
func (c *wire) sized(tool, arguments string, into any) {
	c.t.Helper()
	r := c.call(tool, arguments)
	if n := c.size(r); n > limit {
		c.t.Fatalf("%s of %s takes %d bytes", tool, arguments, n)
	}
	c.structured(r, into)
}

func (c *wire) structured(r *jsonrpc.Response, into any) {
	c.t.Helper()
	if r.Error != nil {
		c.t.Fatal(r.Error)
	}
	res := struct {
		IsError           bool
		StructuredContent any
	}{StructuredContent: into}
	must(c.t, json.Unmarshal(r.Result, &res))
	if res.IsError {
		c.t.Fatalf("refused: %.300s", r.Result)
	}
}

// worst are files whose bytes JSON or base64 blow up the most.
var worst = map[string][]byte{
	"control characters":  bytes.Repeat([]byte("\x01"), 20<<20),
	"lines of them":       bytes.Repeat(append(bytes.Repeat([]byte("\x1f"), 4095), '\n'), 20<<20/4096),
	"quotes":              bytes.Repeat([]byte(`"\`), 10<<20),
	"markup":              bytes.Repeat([]byte("<>&\u2028"), 20<<20/6),
	"bytes that are none": bytes.Repeat([]byte{0xff}, 20<<20),
	"empty lines":         bytes.Repeat([]byte("\n"), 2<<20),
}

// However a log is written, what is read of it stays below the cap, and reading
// on gives all of it.
func TestReadStaysBelowCap(t *testing.T) {
	w := newWorld(t)
	c := w.wire()
	c.greet("2025-11-25")
	for name, log := range worst {
		t.Run(name, func(t *testing.T) {
			c.t = t
			id := newID(t)
			w.shelve(id, log)
			got, want := sha256.New(), sha256.Sum256(log)
			for at, eof := int64(0), false; !eof; {
				var chunk struct {
					Content, Encoding string
					NextOffset        int64 `json:"next_offset"`
					EOF               bool
				}
				c.sized("read", fmt.Sprintf(`{"agent_id":%q,"bytes_from":%d,"max_bytes":%d}`, id, at, 10<<20), &chunk)
				if chunk.NextOffset <= at {
					t.Fatalf("after %d comes %d", at, chunk.NextOffset)
				}
				text := []byte(chunk.Content)
				if chunk.Encoding == "base64" {
					var err error
					text, err = base64.StdEncoding.DecodeString(chunk.Content)
					must(t, err)
				}
				got.Write(text)
				at, eof = chunk.NextOffset, chunk.EOF
			}
			if !bytes.Equal(got.Sum(nil), want[:]) {
				t.Error("what was read is not what was written")
			}
		})
	}
}

// By lines as well, and a reader who goes on by next_line comes to the end.
func TestReadLinesStaysBelowCap(t *testing.T) {
	w := newWorld(t)
	c := w.wire()
	c.greet("2025-11-25")
	id := newID(t)
	w.shelve(id, worst["lines of them"])
	lines := int64(bytes.Count(worst["lines of them"], []byte("\n")))
	var chunk struct {
		LineCount int64 `json:"line_count"`
		NextLine  int64 `json:"next_line"`
		EOF       bool
		Warnings  []string
	}
	calls, sum := 0, int64(0)
	for ; !chunk.EOF; calls++ {
		c.sized("read", fmt.Sprintf(`{"agent_id":%q,"lines_from":%d,"max_bytes":%d}`, id, chunk.NextLine, 10<<20), &chunk)
		sum += chunk.LineCount
		if !chunk.EOF && !strings.Contains(strings.Join(chunk.Warnings, " "), "fit the response") {
			t.Errorf("a chunk that ends early does not say so: %q", chunk.Warnings)
		}
	}
	if sum != lines || chunk.NextLine != lines || calls < 20 {
		t.Errorf("%d calls gave %d of %d lines, the next is %d", calls, sum, lines, chunk.NextLine)
	}
}

func TestGrepStaysBelowCap(t *testing.T) {
	w := newWorld(t)
	c := w.wire()
	c.greet("2025-11-25")
	id := newID(t)
	w.shelve(id, worst["lines of them"])
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
	const agents = 3000
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
