package egress_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pi-mcp/cage/egress"
)

func TestNarrow(t *testing.T) {
	for _, test := range []struct {
		child, parent string
		within        bool
		want          string // "": an error
	}{
		{"provider", "provider", true, "provider"},
		{"provider", "a.test", true, "provider"},
		{"provider", "internet", true, "provider"},
		{"internet", "internet", true, "internet"},
		{"internet", "host", true, "internet"},
		{"host", "host", true, "host"},
		{"host", "internet", false, "internet"},
		{"host", "provider", false, "provider"},
		{"internet", "provider", false, "provider"},
		{"internet", "a.test", false, "a.test"},
		{"a.test", "internet", true, "a.test"},
		{"a.test", "host", true, "a.test"},
		{"a.test", "provider", false, ""},
		{"a.test", "a.test", true, "a.test"},
		{"a.test", "b.test", false, ""},
		{"a.test,b.test", "a.test", false, ""},
		{"a.test:443", "a.test", true, "a.test:443"},
		{"a.test", "a.test:443", false, "a.test:443"},
		{"a.test:8443", "a.test", false, ""},
		{"x.a.test", "*.a.test", true, "x.a.test"},
		{"a.test", "*.a.test", false, ""},
		{"*.a.test", "a.test", false, ""},
		{"*.a.test", "x.a.test:443,y.a.test:22", false, "x.a.test:443"},
		{"*.x.a.test", "*.a.test", true, "*.x.a.test"},
		{"*.a.test", "*.x.a.test", false, "*.x.a.test"},
		{"*.a.test", "*.aa.test", false, ""},
		{"x.a.test", "*.a.test:443,x.a.test:80", true, "x.a.test"},
	} {
		child, parent := parse(t, test.child), parse(t, test.parent)
		if got := child.Within(parent); got != test.within {
			t.Errorf("%s within %s: %v", child, parent, got)
		}
		got, err := egress.Narrow(child, parent)
		if string(got) != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s narrowed to %s = %q, %v; want %q", child, parent, got, err, test.want)
		}
	}
}

func TestNarrowNamesThePattern(t *testing.T) {
	_, err := egress.Narrow(parse(t, "a.test,b.test:22"), parse(t, "a.test"))
	if err == nil || !strings.Contains(err.Error(), "b.test:22") || !strings.Contains(err.Error(), "is a.test;") {
		t.Error(err)
	}
}

// TestNarrowIsBounded: what is narrowed is stored as text, so it must be readable.
func TestNarrowIsBounded(t *testing.T) {
	child, parent := []string{"*.a.test"}, []string{"*.b.test"}
	for i := range 255 {
		child = append(child, fmt.Sprintf("c%d.b.test", i))
		parent = append(parent, fmt.Sprintf("p%d.a.test", i))
	}
	if _, err := egress.Narrow(parse(t, child...), parse(t, parent...)); err == nil || !strings.Contains(err.Error(), "256") {
		t.Error(err)
	}
	if _, err := egress.Narrow(parse(t, child[:128]...), parse(t, parent[:128]...)); err != nil {
		t.Error(err)
	}
}

// random makes policies and targets from few enough parts that they often meet.
type random struct{ *rand.Rand }

func (r random) pick(from ...string) string { return from[r.IntN(len(from))] }

func (r random) host() string {
	return r.pick("", "x.", "y.x.") + r.pick("a.test", "b.test", "x.a.test") + r.pick("", "", ".")
}

func (r random) policy(t *testing.T) egress.Policy {
	if r.IntN(4) == 0 {
		return parse(t, r.pick("provider", "internet", "host"))
	}
	var words []string
	for range 1 + r.IntN(4) {
		words = append(words, r.pick("", "*.")+r.host()+r.pick("", ":443", ":80", ":22"))
	}
	return parse(t, words...)
}

// TestNarrowProperties: a narrowed policy is exactly what both allow, it lies within
// the parent's, and to narrow it again changes nothing.
func TestNarrowProperties(t *testing.T) {
	const seed = 1
	r := random{rand.New(rand.NewPCG(seed, seed))}
	for range 5000 {
		child, parent := r.policy(t), r.policy(t)
		narrow, err := egress.Narrow(child, parent)
		if err != nil {
			if child.Within(parent) {
				t.Fatalf("%s lies within %s: %v", child, parent, err)
			}
			continue
		}
		if !narrow.Within(parent) || !narrow.Within(child) || parse(t, string(narrow)) != narrow {
			t.Fatalf("%s narrowed to %s = %s", child, parent, narrow)
		}
		if again, err := egress.Narrow(narrow, parent); again != narrow || err != nil {
			t.Fatalf("%s narrowed to %s = %s, again = %s, %v", child, parent, narrow, again, err)
		}
		if child.Within(parent) && narrow != child {
			t.Fatalf("%s lies within %s and became %s", child, parent, narrow)
		}
		for range 20 {
			target := r.host() + r.pick(":443", ":80", ":22", ":25")
			if narrow.Allows(target) != (child.Allows(target) && parent.Allows(target)) {
				t.Fatalf("%s narrowed to %s = %s: %s", child, parent, narrow, target)
			}
		}
	}
}

// TestWithinProperties: within means that nothing is allowed in addition; equal
// policies lie within each other, and only those.
func TestWithinProperties(t *testing.T) {
	const seed = 2
	r := random{rand.New(rand.NewPCG(seed, seed))}
	for range 5000 {
		a, b := r.policy(t), r.policy(t)
		if (a.Within(b) && b.Within(a)) != (a == b) {
			t.Fatalf("%s and %s", a, b)
		}
		target := r.host() + r.pick(":443", ":80", ":22")
		if a.Within(b) && a.Allows(target) && !b.Allows(target) {
			t.Fatalf("%s within %s: %s", a, b, target)
		}
	}
}
