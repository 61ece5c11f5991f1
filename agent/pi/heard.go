package pi

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
)

// maxEntry is the length in bytes up to which a line of a session is looked at.
const maxEntry = 4 << 20

// UserMessages reads a session and calls each with the text of every message of the
// user, in order. Lines that are no entry or longer than 4 MiB are passed over. It
// ends early when ctx does.
func UserMessages(ctx context.Context, session io.Reader, each func(text string)) error {
	r := bufio.NewReaderSize(session, 64<<10)
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line) <= maxEntry {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if text, ok := userText(line); ok {
			each(text)
		}
		line = line[:0]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
	}
}

func userText(line []byte) (text string, ok bool) {
	if len(line) > maxEntry || !bytes.Contains(line, []byte(`"user"`)) {
		return "", false
	}
	var entry struct {
		Type    string
		Message json.RawMessage
	}
	if json.Unmarshal(line, &entry) != nil || entry.Type != "message" {
		return "", false
	}
	return UserText(entry.Message)
}

// UserText returns the text of a message, and false if it is not the user's.
func UserText(message []byte) (text string, ok bool) {
	var m struct {
		Role    string
		Content json.RawMessage // parts, or one string
	}
	if json.Unmarshal(message, &m) != nil || m.Role != "user" {
		return "", false
	}
	if json.Unmarshal(m.Content, &text) == nil {
		return text, true
	}
	var parts []struct{ Text string }
	if json.Unmarshal(m.Content, &parts) != nil {
		return "", false
	}
	for _, p := range parts {
		text += p.Text
	}
	return text, true
}
