package artifacts

import "unicode/utf8"

// A budget is what a chunk may still hold: bytes of content, and bytes of the
// response that the content turns into.
type budget struct {
	bytes, wire int64
	capped      bool // the response was the tighter limit
}

func (r Range) budget(maxBytes int64) *budget {
	b := &budget{bytes: maxBytes, wire: r.Cap}
	if b.wire <= 0 {
		b.wire = DefaultCap
	}
	return b
}

// take charges for all of b, or for nothing when it does not fit.
func (g *budget) take(b []byte, extraBytes, extraWire int64) bool {
	bytes, wire := int64(len(b))+extraBytes, wireCost(b)+extraWire
	if bytes > g.bytes || wire > g.wire {
		g.capped = bytes <= g.bytes
		return false
	}
	g.bytes -= bytes
	g.wire -= wire
	return true
}

// fit returns how many leading bytes of b fit, in whole characters: one at
// least, so that whoever goes on from there moves on.
func (g *budget) fit(b []byte) int {
	for n, wire := 0, int64(0); n < len(b); {
		_, w := utf8.DecodeRune(b[n:])
		wire += wireCost(b[n : n+w])
		if n > 0 && (int64(n+w) > g.bytes || wire > g.wire) {
			g.capped = int64(n+w) <= g.bytes
			return n
		}
		n += w
	}
	return len(b)
}

// wireCost is an upper bound of what b takes in a response: in a JSON string,
// and again in the JSON string that quotes the first; or twice as base64 in
// place of both, which is never more than three bytes for one.
func wireCost(b []byte) int64 {
	cost := int64(0)
	for _, c := range b {
		switch {
		case c == '"', c == '\\':
			cost += 2 + 4
		case c == '\n', c == '\r', c == '\t':
			cost += 2 + 3
		case c < ' ', c == '<', c == '>', c == '&':
			cost += 6 + 7 // \u00NN; encoding/json does so for HTML too
		case c == 0xE2:
			cost += 7 // with two bytes to come, \u2028 in the worst case
		default:
			cost += 3
		}
	}
	return cost
}
