package mcpserver

import (
	"bytes"
	"slices"
)

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
// result, and reports whether that took something off. Each gets the same share, and
// what short ones leave of theirs goes to the long ones.
func cutAll(all []string, most int) (short bool) {
	const frame = 2*3 + 2 // quotes and a comma, and the quotes escaped
	needs := make([]int, len(all))
	for i, s := range all {
		needs[i] = frame
		for _, r := range s {
			needs[i] += wireCost(r)
		}
	}
	share, short := fair(needs, most)
	for i, s := range all {
		if short && needs[i] > share {
			all[i] = cut(s, share-frame)
		}
	}
	return short
}

// fair is the most that each may take of what there is for all, if they need more.
func fair(needs []int, most int) (share int, short bool) {
	needs = slices.Sorted(slices.Values(needs))
	for i, need := range needs {
		if share = most / (len(needs) - i); need > share {
			return share, true
		}
		most -= need
	}
	return share, false
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
