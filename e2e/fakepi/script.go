package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A script is a file beside the executable. The zero script is the default pi.
type script struct {
	Start []action            `json:"start"`
	On    map[string][]action `json:"on"`
	EOF   []action            `json:"eof"`
}

// An action is one step. Of its members one says what to do, and some have a
// companion; the package comment has the list.
type action struct {
	Write     *string         `json:"write"`
	Record    json.RawMessage `json:"record"`
	Bytes     []byte          `json:"bytes"`
	Split     bool            `json:"split"`
	Respond   *members        `json:"respond"`
	Default   bool            `json:"default"`
	Turn      *string         `json:"turn"`
	Hold      string          `json:"hold"`
	Ask       *members        `json:"ask"`
	DelayMS   int             `json:"delay_ms"`
	WaitFile  string          `json:"wait_file"`
	Touch     string          `json:"touch"`
	File      string          `json:"file"`
	Content   string          `json:"content"`
	Stderr    string          `json:"stderr"`
	Repeat    int             `json:"repeat"`
	Flood     int64           `json:"flood"`
	Line      int64           `json:"line"`
	Type      string          `json:"type"`
	Spawn     []string        `json:"spawn"`
	Signal    string          `json:"signal"`
	Exit      *int            `json:"exit"`
	Hang      bool            `json:"hang"`
	IgnoreEOF bool            `json:"ignore_eof"`
}

// loadScript reads the script that the model names, if there is one.
func loadScript(opts options) (script, error) {
	var sc script
	name := filepath.Join(opts.dir, filepath.Base(opts.model)+".json")
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return sc, nil
	}
	if err == nil {
		err = strict(data, &sc)
	}
	if err != nil {
		return sc, fmt.Errorf("bad script %s: %w", name, err)
	}
	return sc, nil
}

// inMessage returns the actions that a prompt brings along, if it does.
func inMessage(message string) ([]action, error) {
	list, ok := strings.CutPrefix(message, "!")
	if !ok || !strings.HasPrefix(list, "[") {
		return nil, nil
	}
	var actions []action
	if err := strict([]byte(list), &actions); err != nil {
		return nil, fmt.Errorf("bad script in the message: %w", err)
	}
	return actions, nil
}

// strict refuses what no one reads: a misspelt action would make a test pass
// that tests nothing.
func strict(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// writes says whether an action is over with the bytes it writes.
func (a action) writes() bool {
	return a.Write != nil || a.Record != nil || a.Bytes != nil || a.Respond != nil
}

// members is an object that keeps the order of the script.
type members fields

// UnmarshalJSON implements json.Unmarshaler.
func (m *members) UnmarshalJSON(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return errors.New("not an object")
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		*m = append(*m, field{name.(string), value})
	}
	return nil
}
