package pi_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/agent/pi"
)

// Only whole messages of the user count, whatever else is in a session.
func TestUserMessages(t *testing.T) {
	long := strings.Repeat("x", 5<<20)
	session := strings.Join([]string{
		`{"type":"session","version":3,"id":"x"}`,
		`{"type":"message","message":{"role":"user","content":[{"type":"text","text":"one\nline"},{"type":"image","data":"user"},{"type":"text","text":", more"}]}}`,
		`{"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"\"user\""}]}}`,
		`{"type":"message","message":{"role":"user","content":"two"}}`,
		`{"type":"custom","message":{"role":"user","content":"no message"}}`,
		`{"type":"message","message":{"role":"toolResult","content":"\"role\":\"user\"","note":"user"}}`,
		`{"type":"message","message":{"role":"user","content":"` + long + `"}}`,
		`{"type":"message","message":{"role":"user","content":{}}}`,
		`not JSON "user"`, "",
		`{"type":"message","message":{"role":"user","content":"three"}}`,
		`{"type":"message","message":{"role":"user","content":"cut o`,
	}, "\n")
	var got []string
	each := func(text string) { got = append(got, text) }
	if err := pi.UserMessages(t.Context(), strings.NewReader(session), each); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one\nline, more", "two", "three"}, got); diff != "" {
		t.Error(diff)
	}
	got = nil
	whole := `{"type":"message","message":{"role":"user","content":"last"}}` // without an end of line
	if err := pi.UserMessages(t.Context(), strings.NewReader(whole), each); err != nil || len(got) != 1 {
		t.Errorf("%q, %v", got, err)
	}
}

// It ends with its context, and with what it reads.
func TestUserMessagesEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	none := func(string) {}
	if err := pi.UserMessages(ctx, strings.NewReader("{}\n{}\n"), none); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	broken := io.MultiReader(strings.NewReader("{}\n"), failing{})
	if err := pi.UserMessages(t.Context(), broken, none); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a broken file: %v", err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }
