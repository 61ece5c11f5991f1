// Package egress decides what a caged agent may reach on the network, and is the
// proxy that holds it to that.
//
// A [Policy] is what an agent was granted. A [Proxy] serves the connections that
// one agent makes to its proxy address, over a listener that belongs to that cage
// alone: who connects is known by the listener, so there is nothing to log in with.
// The cage has no other way out, neither UDP nor name resolution.
package egress

import (
	"fmt"
	"slices"
	"strings"
)

// A Policy says which hosts an agent may reach. It is one of the three words below,
// or a list of patterns as Parse describes it. Two policies that came from Parse or
// Narrow allow the same if and only if they are equal, so it may be compared, stored
// as its text and parsed again.
//
// The zero value, and text that Parse would refuse, mean [Provider].
type Policy string

const (
	// Provider allows the model's own host and port, and nothing else. Every
	// other policy allows that too.
	Provider Policy = "provider"

	// Internet allows every public address.
	Internet Policy = "internet"

	// Host is the machine's own network, shared and not proxied. A proxy that
	// is given it all the same does what it does for Internet.
	Host Policy = "host"
)

const (
	maxPatterns = 256
	maxPattern  = 253 // the longest name that DNS has
)

// Parse reads a policy: one word (provider, internet, host) or up to 256 patterns,
// each a string of its own or several in one, separated by commas or spaces.
//
// A pattern is host[:port] or *.domain[:port], the latter for every name below the
// domain but not for the domain itself. A host is a name, an IPv4 address or an
// IPv6 address, in brackets if a port follows. Without a port it stands for 443 and
// 80. Names are compared without regard to case. An error names the pattern that is
// wrong and says what to write.
func Parse(words []string) (Policy, error) {
	r, err := parse(words)
	if err != nil {
		return "", err
	}
	return r.policy(), nil
}

func parse(words []string) (rules, error) {
	fields, err := split(words)
	if err != nil {
		return rules{}, err
	}
	if len(fields) == 1 {
		if level, ok := keyword(fields[0]); ok {
			return rules{level: level}, nil
		}
	}
	list := make([]pattern, 0, 2*len(fields))
	for _, field := range fields {
		patterns, err := parsePattern(field)
		if err != nil {
			return rules{}, fmt.Errorf("cannot use %s in a network policy: %w", quoted(field), err)
		}
		list = append(list, patterns...)
	}
	return rules{level: levelList, list: minimal(list)}, nil
}

// split returns the separate words, having bounded how much there is to read.
func split(words []string) (fields []string, err error) {
	for _, word := range words {
		for field := range strings.FieldsFuncSeq(word, separator) {
			if len(fields) == maxPatterns {
				return nil, fmt.Errorf("the network policy has more than %d patterns; use *.domain for several hosts, or %q", maxPatterns, Internet)
			}
			fields = append(fields, field)
		}
	}
	if len(fields) == 0 {
		return nil, fmt.Errorf("the network policy is empty; write %q for the model's own host only, %q, %q or host patterns", Provider, Internet, Host)
	}
	return fields, nil
}

func separator(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' }

// String is the policy in its one canonical spelling.
func (p Policy) String() string { return string(p.rules().policy()) }

// Strings is String as a list: one word, or the patterns.
func (p Policy) Strings() []string { return strings.Split(p.String(), ",") }

// The levels are in the order of what they allow.
const (
	levelProvider = iota
	levelList
	levelInternet
	levelHost
)

var keywords = [...]Policy{levelProvider: Provider, levelInternet: Internet, levelHost: Host}

func keyword(word string) (level int, ok bool) {
	level = slices.Index(keywords[:], Policy(strings.ToLower(word)))
	return level, level >= 0 && word != ""
}

// rules are a policy in the form to decide by. list is minimal, and empty for every
// level but levelList.
type rules struct {
	level int
	list  []pattern
}

// rules fails towards less: what cannot be read allows the provider only.
func (p Policy) rules() rules {
	r, err := parse([]string{string(p)})
	if err != nil {
		return rules{}
	}
	return r
}

func (r rules) policy() Policy {
	if r.level != levelList {
		return keywords[r.level]
	}
	var words []string
	for _, unit := range units(r.list) {
		words = append(words, unit.String())
	}
	return Policy(strings.Join(words, ","))
}

// allow reports whether the rules do, whatever its address turns out to be.
func (r rules) allow(t target) bool {
	only := exactly(t.host, t.port)
	return r.level > levelList || slices.ContainsFunc(r.list, func(a pattern) bool { return a.covers(only) })
}
