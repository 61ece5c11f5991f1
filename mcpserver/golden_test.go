package mcpserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGoldenTools pins what clients are told.
func TestGoldenTools(t *testing.T) {
	c := newWorld(t).wire()
	hello := c.greet("2025-11-25")
	golden(t, "initialize", hello)
	golden(t, "tools_list", c.ask("tools/list", `{}`).Result)
}

// TestGoldenCalls pins one story in which every tool is called once and succeeds,
// as it goes over the wire.
func TestGoldenCalls(t *testing.T) {
	w := newWorld(t)
	c := w.wire()
	c.greet("2025-11-25")
	n := normal{ids: map[string]string{}, dir: w.dir}
	w.play(c, func(s step, result json.RawMessage) {
		golden(t, s.file, []byte(n.of(string(result))))
	})
}

// A normal takes out of answers what differs from run to run.
type normal struct {
	ids map[string]string
	dir string
}

var (
	anID   = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	aTime  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`)
	varied = regexp.MustCompile(`(\\?"(?:pid|session_bytes|stdout_bytes|mtime)\\?":)[1-9][\d.]*`)
	dirs   = regexp.MustCompile(`(\\?"type\\?":\\?"directory\\?",\\?"size\\?":)\d+`)
	grepAt = regexp.MustCompile(`(\\?"binary\\?":\\?")[^"\\]*/grep`)
)

func (n *normal) of(text string) string {
	text = anID.ReplaceAllStringFunc(text, func(id string) string {
		if n.ids[id] == "" {
			n.ids[id] = fmt.Sprintf("ID-%d", len(n.ids)+1)
		}
		return n.ids[id]
	})
	text = strings.ReplaceAll(text, n.dir, "DIR")
	text = aTime.ReplaceAllString(text, "TIME")
	text = varied.ReplaceAllString(text, "${1}1")
	text = dirs.ReplaceAllString(text, "${1}1")
	return grepAt.ReplaceAllString(text, "${1}/usr/bin/grep")
}

// golden compares JSON, its members' order included, with a file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	var b bytes.Buffer
	must(t, json.Indent(&b, got, "", "  "))
	b.WriteByte('\n')
	path := filepath.Join("testdata", name+".json")
	if *update {
		must(t, os.MkdirAll("testdata", 0o755))
		must(t, os.WriteFile(path, b.Bytes(), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s is not as it was; -update accepts it (-want +got):\n%s", path, diff)
	}
}
