package e2e

import (
	"fmt"
	"strings"
	"testing"

	"pi-mcp/scripted"
)

// With a context_size pi compacts once the conversation passes it, and not
// before; without one, the same conversation is not compacted.
func TestCompaction(t *testing.T) {
	t.Parallel()
	w, m := newReal(t)
	m.cost = func(r scripted.Request) scripted.Usage {
		if strings.HasPrefix(r.Last(), "large") {
			return scripted.Usage{Input: 20500, Output: 100}
		}
		return scripted.Usage{Input: 15000, Output: 100}
	}
	c := w.client()
	for _, tc := range []struct {
		args obj
		want int
	}{
		{obj{"context_size": 20000}, 1},
		{obj{}, 0},
	} {
		before := len(m.Requests())
		a := c.run(tc.args)
		// More than pi keeps of a compacted conversation: context_size / 10.
		for i := range 4 {
			c.ask(a.ID, fmt.Sprintf("small %d: %s", i, strings.Repeat("so many words ", 300)))
		}
		if n := compactions(m, before); n != 0 {
			t.Errorf("%v: %d compactions below the limit", tc.args, n)
		}
		c.ask(a.ID, "large")
		c.ask(a.ID, "small again")
		if n := compactions(m, before); n != tc.want {
			t.Errorf("%v: %d compactions above the limit, not %d", tc.args, n, tc.want)
		}
		last := m.Requests()[len(m.Requests())-1]
		if summed := strings.Contains(last.AllText(), "They spoke of little."); summed != (tc.want == 1) {
			t.Errorf("%v: the summary is in the last request: %v", tc.args, summed)
		}
	}
}

// compactions counts the requests for a summary, without the first ones.
func compactions(m *model, skip int) (n int) {
	for _, r := range m.Requests()[skip:] {
		if r.IsCompaction() {
			n++
		}
	}
	return n
}
