package mcpserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// samples are texts that JSON writes in all of its ways.
var samples = []string{
	"", "plain", `"quoted" \ and back`, "line\nline\r\t", "\x00\x01\x1f\x7f\b\f", "<a href='x'>&amp;</a>", "ä€\u2028\u2029😀\uFFFD",
	strings.Repeat(`\"`, 1000), strings.Repeat("<\x01", 1000),
}

// What a result is said to take is what the SDK makes of it.
func TestWireSize(t *testing.T) {
	for _, s := range samples {
		res, err := result(map[string]string{"text": s})
		if err != nil {
			t.Fatal(err)
		}
		text := res.StructuredContent.(json.RawMessage)
		got, err := json.Marshal(&mcp.CallToolResult{StructuredContent: text, Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}})
		if err != nil {
			t.Fatal(err)
		}
		frame := len(`{"content":[{"type":"text","text":""}],"structuredContent":}`)
		if want := len(got) - frame; wireSize(text) != want {
			t.Errorf("wireSize of %.50q is %d, it takes %d", s, wireSize(text), want)
		}
	}
}

// taken is what strings take in a result.
func taken(t *testing.T, s any) int {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return wireSize(text)
}

func TestCut(t *testing.T) {
	for _, s := range samples {
		for _, most := range []int{0, 1, 7, 100, 1000, 1 << 20} {
			got := cut(s, most)
			if !strings.HasPrefix(s, got) || !utf8.ValidString(got) {
				t.Errorf("cut of %.50q is %.50q", s, got)
			}
			if frame := taken(t, ""); taken(t, got)-frame > most {
				t.Errorf("cut of %.50q takes %d, at most %d were allowed", s, taken(t, got)-frame, most)
			}
			if most == 1<<20 && got != s {
				t.Errorf("%.50q is cut without need", s)
			}
		}
	}
}

func TestCutAll(t *testing.T) {
	for _, most := range []int{300, 3000, 1 << 20} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			all := append([]string{}, samples...)
			before := taken(t, all)
			short := cutAll(all, most)
			if after := taken(t, all); after > most+4 || short != (after < before) {
				t.Errorf("cut from %d to %d bytes; short: %v", before, after, short)
			}
		})
	}
}

// A result that is too large is an error in words, not a broken session.
func TestResultTooLarge(t *testing.T) {
	res, err := result(strings.Repeat("x", maxResult/2))
	if err != nil || !res.IsError || res.StructuredContent != nil {
		t.Errorf("too large: %v, %v", res.IsError, err)
	}
	res, err = result(strings.Repeat("x", maxResult/2-3))
	if err != nil || res.IsError {
		t.Errorf("just fits: %v, %v", res.Content, err)
	}
}
