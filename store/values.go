package store

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"time"
)

// list is strings, kept as a JSON array. Neither a missing nor an empty
// list is null, and both are read as nil.
type list struct{ at *[]string }

func (l list) Value() (driver.Value, error) {
	if len(*l.at) == 0 {
		return "[]", nil
	}
	text, err := json.Marshal(*l.at)
	return string(text), err
}

func (l list) Scan(from any) error {
	*l.at = nil // not reused: rows read before this one share it
	text, ok := from.(string)
	if !ok {
		return fmt.Errorf("a list cannot be a %T", from)
	}
	if text == "[]" {
		return nil
	}
	return json.Unmarshal([]byte(text), l.at)
}

// moment is a time, kept as unix milliseconds.
type moment struct{ at *time.Time }

func (m moment) Value() (driver.Value, error) { return m.at.UnixMilli(), nil }

func (m moment) Scan(from any) error {
	ms, ok := from.(int64)
	if !ok {
		return fmt.Errorf("a time cannot be a %T", from)
	}
	*m.at = time.UnixMilli(ms).UTC()
	return nil
}

// maybe is a moment, or null for nil.
type maybe struct{ at **time.Time }

func (m maybe) Value() (driver.Value, error) {
	if *m.at == nil {
		return nil, nil
	}
	return moment{*m.at}.Value()
}

func (m maybe) Scan(from any) error {
	*m.at = nil
	if from == nil {
		return nil
	}
	*m.at = new(time.Time)
	return moment{*m.at}.Scan(from)
}

// ceiling is a Ceiling, kept as a JSON object, or as the empty string for nil.
type ceiling struct{ at **Ceiling }

func (c ceiling) Value() (driver.Value, error) {
	if *c.at == nil {
		return "", nil
	}
	text, err := json.Marshal(*c.at)
	return string(text), err
}

func (c ceiling) Scan(from any) error {
	*c.at = nil // not reused: rows read before this one share it
	text, ok := from.(string)
	if !ok {
		return fmt.Errorf("a ceiling cannot be a %T", from)
	}
	if text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), c.at)
}
