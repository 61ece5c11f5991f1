package mcpserver

import "bytes"

// maxResult bounds one result, encoded, in bytes. Clients read lines of twice
// that at least.
const maxResult = 8 << 20

// wireSize is what a value takes in a result, given as JSON: once as it is, and
// once as the text of a string.
func wireSize(text []byte) int {
	return 2*len(text) + bytes.Count(text, []byte{'"'}) + bytes.Count(text, []byte{'\\'})
}

// cut returns the beginning of s that takes at most most bytes in a result.
func cut(s string, most int) string {
	for i, r := range s {
		if most -= wireCost(r); most < 0 {
			return s[:i]
		}
	}
	return s
}

// cutAll cuts strings so that an array of them takes at most most bytes in a
// result, and reports whether that took something off. Each gets the same share.
func cutAll(all []string, most int) (short bool) {
	const frame = 2*3 + 2 // quotes and a comma, and the quotes escaped
	need := 0
	for _, s := range all {
		need += frame
		for _, r := range s {
			need += wireCost(r)
		}
	}
	if need <= most {
		return false
	}
	for i, s := range all {
		all[i] = cut(s, most/len(all)-frame)
	}
	return true
}

// wireCost is at least what a character takes in a result: in a JSON string, and
// again in a JSON string that quotes the first.
func wireCost(r rune) int {
	switch {
	case r == '"', r == '\\':
		return 2 + 4
	case r == '\n', r == '\r', r == '\t':
		return 2 + 3
	case r < ' ', r == '<', r == '>', r == '&', r == '\u2028', r == '\u2029':
		return 6 + 7
	case r < 0x80:
		return 1 + 1
	}
	return 4 + 4
}
