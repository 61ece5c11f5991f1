package pi

import "strings"

// pi expands some strings of its files: a leading ! runs the rest as a command,
// $NAME and ${NAME} are the environment's, $$ and $! are a plain $ and !.

// literal writes a string so that pi takes it as it is.
func literal(s string) string {
	s = strings.ReplaceAll(s, "$", "$$")
	if strings.HasPrefix(s, "!") {
		return "$" + s
	}
	return s
}

// refers reports whether pi would look outside of the string.
func refers(s string) bool {
	if strings.HasPrefix(s, "!") {
		return true
	}
	for {
		_, after, ok := strings.Cut(s, "$")
		switch {
		case !ok || after == "":
			return false
		case after[0] == '$' || after[0] == '!':
			s = after[1:]
		case after[0] == '{':
			name, rest, closed := strings.Cut(after[1:], "}")
			if closed && nameLen(name) == len(name) && name != "" {
				return true
			}
			if s = after; closed {
				s = rest
			}
		case nameLen(after) > 0:
			return true
		default:
			s = after
		}
	}
}

// nameLen is the length of the variable name that s begins with.
func nameLen(s string) int {
	for i, r := range s {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return i
		}
	}
	return len(s)
}

// plainJSON takes out what pi allows beyond JSON: a byte order mark, comments
// to the end of the line, and commas after the last element.
func plainJSON(text []byte) []byte {
	text = []byte(strings.TrimPrefix(string(text), "\ufeff"))
	var out []byte
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			end := stringEnd(text, i)
			out = append(out, text[i:end]...)
			i = end - 1
		case c == '/' && i+1 < len(text) && text[i+1] == '/':
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case c == '}' || c == ']':
			out = append(dropComma(out), c)
		default:
			out = append(out, c)
		}
	}
	return out
}

// stringEnd returns the index behind the string that starts at i.
func stringEnd(text []byte, i int) int {
	for i++; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

func dropComma(out []byte) []byte {
	trimmed := strings.TrimRight(string(out), " \t\r\n")
	if strings.HasSuffix(trimmed, ",") {
		return out[:len(trimmed)-1]
	}
	return out
}
