package main

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"sync"
	"time"
)

// A session is pi's session file, as far as somebody else may read it: a header
// and the messages. Without a file it only counts.
type session struct {
	path string
	file *os.File // nil without a session file
	id   string

	mu       sync.Mutex // protects the fields below
	parent   string     // id of the last entry
	counts   map[string]int
	lastText string
}

// openSession takes an existing session over, or begins one.
func openSession(path string) (*session, error) {
	s := &session{path: path, id: newID(16), counts: map[string]int{}}
	if path == "" {
		return s, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	s.file = f
	return s, s.load(bufio.NewReader(f))
}

func (s *session) load(r *bufio.Reader) error {
	line, err := r.ReadBytes('\n')
	if err == io.EOF && len(line) == 0 {
		cwd, _ := os.Getwd()
		s.write(fields{{"type", "session"}, {"version", 3}, {"id", s.id}, {"timestamp", now()}, {"cwd", cwd}})
		return nil
	}
	var header struct{ Type, ID, Cwd string }
	if json.Unmarshal(line, &header) != nil || header.Type != "session" {
		return wordsOfPi("Session file is not a valid pi session: " + s.path)
	}
	if _, err := os.Stat(header.Cwd); err != nil {
		return wordsOfPi("Stored session working directory does not exist: " + header.Cwd)
	}
	s.id = header.ID
	for err == nil {
		line, err = r.ReadBytes('\n')
		s.take(line)
	}
	if len(line) > 0 { // killed in the middle of a line
		s.file.Write([]byte{'\n'})
	}
	return nil
}

// take counts one entry of the file. One that is not complete is nothing.
func (s *session) take(line []byte) {
	var entry struct {
		Type, ID string
		Message  struct {
			Role    string
			Content json.RawMessage // a list, or for some roles a string
		}
	}
	if json.Unmarshal(line, &entry) != nil {
		return
	}
	s.parent = entry.ID
	if entry.Type != "message" {
		return
	}
	var parts []struct{ Text string }
	json.Unmarshal(entry.Message.Content, &parts)
	text := ""
	for _, p := range parts {
		text += p.Text
	}
	s.count(entry.Message.Role, text)
}

func (s *session) count(role, text string) {
	s.counts[role]++
	if role == "assistant" && text != "" {
		s.lastText = text
	}
}

// add appends a message, and has it in the file when it returns.
func (s *session) add(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(m.role, m.text)
	id := newID(4)
	s.write(fields{{"type", "message"}, {"id", id}, {"parentId", s.parent}, {"timestamp", now()}, {"message", m}})
	s.parent = id
}

func (s *session) write(entry fields) {
	if s.file != nil {
		s.file.Write(append(encode(entry), '\n'))
	}
}

// fresh says whether the session has no messages yet.
func (s *session) fresh() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.counts) == 0
}

func newID(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

func now() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000Z") }
