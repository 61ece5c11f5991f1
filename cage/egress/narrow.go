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
	set := newSet(outer.list)
	return !slices.ContainsFunc(inner.list, func(p pattern) bool { return !set.covers(p) })
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
	set := newSet(outer.list)
	for _, u := range units(inner.list) {
		shared := append(u.within(set), u.below(outer.list)...)
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

// within returns the patterns of the unit that the set covers.
func (u unit) within(s set) (in []pattern) {
	for _, p := range u {
		if s.covers(p) {
			in = append(in, p)
		}
	}
	return in
}

// below returns the patterns of list that the unit covers. With within these are all
// that both match: of two patterns one covers the other or they have nothing in common.
func (u unit) below(list []pattern) (in []pattern) {
	for _, p := range list {
		if slices.ContainsFunc(u, func(a pattern) bool { return a.covers(p) }) {
			in = append(in, p)
		}
	}
	return in
}

// bounded is a policy for a message.
func bounded(p Policy) string {
	const most = 200
	if len(p) > most {
		return fmt.Sprintf("%s... (%d patterns)", p[:most], len(p.Strings()))
	}
	return string(p)
}
