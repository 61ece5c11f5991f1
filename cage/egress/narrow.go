package egress

import (
	"fmt"
	"slices"
)

// Within reports whether whatever the policy allows is allowed by parent too. A list
// lies within another when each of its patterns is covered by one of the other's.
// In order: Provider, any list, Internet, Host.
func (p Policy) Within(parent Policy) bool {
	inner, outer := p.rules(), parent.rules()
	if inner.level != levelList || outer.level != levelList {
		return inner.level <= outer.level
	}
	return !slices.ContainsFunc(inner.list, func(b pattern) bool { return !covered(outer.list, b) })
}

// Narrow returns what both policies allow: the policy of an agent that asks for child
// and whose parent has parent. A word is a ceiling and gives way to a narrower parent
// in silence. A pattern was asked for by name: an error says which one has nothing in
// common with the parent's. To refuse whatever is cut short, ask Within.
func Narrow(child, parent Policy) (Policy, error) {
	inner, outer := child.rules(), parent.rules()
	if inner.level != levelList || outer.level > levelList {
		if inner.level <= outer.level {
			return inner.policy(), nil
		}
		return outer.policy(), nil
	}
	var common []pattern
	for _, u := range units(inner.list) {
		shared := intersection(u, outer.list)
		if len(shared) == 0 {
			return "", fmt.Errorf("cannot allow %s: the parent's network policy is %s; leave it out, or give the parent more", u, bounded(outer.policy()))
		}
		common = append(common, shared...)
	}
	common = minimal(common)
	if len(units(common)) > maxPatterns {
		return "", fmt.Errorf("cannot narrow the network policy: what both allow takes more than %d patterns; ask for fewer", maxPatterns)
	}
	return rules{level: levelList, list: common}.policy(), nil
}

// intersection returns what is matched by a pattern of both lists. Of two patterns
// either one covers the other or they have nothing in common.
func intersection(a, b []pattern) (both []pattern) {
	for _, x := range a {
		for _, y := range b {
			switch {
			case x.covers(y):
				both = append(both, y)
			case y.covers(x):
				both = append(both, x)
			}
		}
	}
	return both
}

// bounded is a policy for a message.
func bounded(p Policy) string {
	const most = 200
	if len(p) > most {
		return fmt.Sprintf("%s... (%d patterns)", p[:most], len(p.Strings()))
	}
	return string(p)
}
