package agent

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// clip returns the beginning of s, at most n bytes and no half character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// maxTail bounds how much of stderr goes into an error, in bytes.
const maxTail = 4 << 10

// A tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(p) >= maxTail {
		t.buf = append(t.buf[:0], p[len(p)-maxTail:]...)
		return len(p), nil
	}
	if over := len(t.buf) + len(p) - maxTail; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	t.buf = append(t.buf, p...)
	return len(p), nil
}

// String returns the end, trimmed and valid UTF-8. A nil tail is empty.
func (t *tail) String() string {
	if t == nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.buf), "\uFFFD"))
}
