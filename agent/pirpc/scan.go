package pirpc

import (
	"encoding/json"
	"iter"
)

// A head holds those members of a record that this package acts on, as they
// stand in the line. A member that is missing, or that lies behind the cut of a
// long record, is nil.
type head struct {
	id, command, method, success, err, data []byte
}

// headOf reads the members in the order they come, so of a name that stands
// twice the later one counts, as it does in JavaScript.
func headOf(line []byte) head {
	var h head
	for key, value := range members(line) {
		switch key {
		case "id":
			h.id = value
		case "command":
			h.command = value
		case "method":
			h.method = value
		case "success":
			h.success = value
		case "error":
			h.err = value
		case "data":
			h.data = value
		}
	}
	return h
}

// members yields the members of the object that line holds, in order, without
// decoding or copying the values. It does not check what it steps over, and
// stops quietly where it cannot go on, which is what makes it fit for the
// beginning of a record whose end is missing. encoding/json can do neither: it
// wants the whole object, and copies.
func members(line []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		rest, ok := after(line, '{')
		for ok {
			var key, value []byte
			if key, rest = cutValue(rest); len(key) == 0 || key[0] != '"' {
				return
			}
			if rest, ok = after(rest, ':'); !ok {
				return
			}
			if value, rest = cutValue(rest); value == nil || !yield(text(key), value) {
				return
			}
			rest, ok = after(rest, ',')
		}
	}
}

// after returns what follows the delimiter c, if that is what comes next.
func after(b []byte, c byte) ([]byte, bool) {
	b = trimSpace(b)
	if len(b) == 0 || b[0] != c {
		return nil, false
	}
	return b[1:], true
}

// trimSpace knows the white space of JSON, which is less than that of Unicode.
func trimSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:]
	}
	return b
}

// cutValue skips white space and splits b behind the value that comes next. The
// value is nil if its end is not in b.
func cutValue(b []byte) (value, rest []byte) {
	b = trimSpace(b)
	n := valueEnd(b)
	if n <= 0 {
		return nil, nil
	}
	return b[:n], b[n:]
}

// valueEnd returns the index behind the value that b begins with, or -1 if it
// is not in b.
func valueEnd(b []byte) int {
	switch {
	case len(b) == 0:
		return -1
	case b[0] == '"':
		return stringEnd(b)
	case b[0] == '{' || b[0] == '[':
		return nestedEnd(b)
	}
	for i, c := range b {
		switch c {
		case ',', '}', ']', ':', ' ', '\t', '\r', '\n':
			return i
		}
	}
	return -1 // a number that goes on behind the cut would be another number
}

// stringEnd returns the index behind the string that b begins with, or -1. An
// escape is two bytes long as far as it matters: in \u0022 the digits are
// neither quotes nor backslashes.
func stringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// nestedEnd returns the index behind the object or array that b begins with, or
// -1. The kinds of brackets are not told apart: in a valid record they match.
func nestedEnd(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			n := stringEnd(b[i:])
			if n < 0 {
				return -1
			}
			i += n - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}

// text decodes a JSON string. Anything else is "": an id that is a number is
// not one of ours, and a type that is a list is no type.
func text(value []byte) string {
	if len(value) < 2 || value[0] != '"' {
		return ""
	}
	plain := value[1 : len(value)-1]
	for _, c := range plain {
		if c == '\\' || c >= 0x80 || c < ' ' {
			return decoded(value)
		}
	}
	return string(plain)
}

// decoded is the slow path of text, apart so that text itself allocates nothing
// but its result.
func decoded(value []byte) string {
	var s string
	if json.Unmarshal(value, &s) != nil {
		return ""
	}
	return s
}
