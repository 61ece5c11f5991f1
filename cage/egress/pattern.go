package egress

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// A pattern is one host and one port, or with wild every name below host.
type pattern struct {
	wild bool
	host string // as parseHost writes it
	port uint16
}

// The ports of a pattern that names none.
const (
	portTLS  = 443
	portHTTP = 80
)

// parsePattern returns one pattern, or two if the text names no port.
func parsePattern(text string) ([]pattern, error) {
	if err := plausible(text); err != nil {
		return nil, err
	}
	rest, wild := strings.CutPrefix(text, "*.")
	hostText, portText, err := splitPort(rest)
	if err != nil {
		return nil, err
	}
	host, addr, err := parseHost(hostText)
	if err != nil {
		return nil, err
	}
	if wild && addr.IsValid() {
		return nil, errors.New("*. goes before a domain name, not before an address")
	}
	if portText == "" {
		return []pattern{{wild, host, portTLS}, {wild, host, portHTTP}}, nil
	}
	port, err := parsePort(portText)
	if err != nil {
		return nil, err
	}
	return []pattern{{wild, host, port}}, nil
}

// plausible finds what people write that is no pattern, to say what one is.
func plausible(text string) error {
	_, isKeyword := keyword(text)
	switch {
	case isKeyword:
		return errors.New("the word stands alone, without patterns or other words")
	case len(text) > len("*.")+maxPattern+len(":65535"):
		return errors.New("a host name has at most 253 characters")
	case strings.Contains(text, "://"):
		return errors.New("write the host alone, as in example.com or example.com:8443, without a scheme and a path")
	case strings.Contains(text, "/"):
		return errors.New("write a host without a path; address ranges cannot be given, list the addresses")
	case strings.Contains(text, "@"):
		return errors.New("write the host without a user name")
	case strings.Contains(strings.TrimPrefix(text, "*."), "*"):
		return errors.New("* stands only at the beginning, as in *.example.com; for every host write \"internet\"")
	}
	return nil
}

// covers reports whether whatever b matches is matched by a too.
func (a pattern) covers(b pattern) bool {
	return a == b || a.port == b.port && a.wild && strings.HasSuffix(b.host, "."+a.host)
}

func covered(list []pattern, b pattern) bool {
	return slices.ContainsFunc(list, func(a pattern) bool { return a.covers(b) })
}

// minimal sorts a list and leaves out what the rest of it covers. Lists that match
// the same become the same list.
func minimal(list []pattern) []pattern {
	list = slices.Clone(list)
	slices.SortFunc(list, compare)
	list = slices.Compact(list)
	all := slices.Clone(list)
	return slices.DeleteFunc(list, func(b pattern) bool {
		return slices.ContainsFunc(all, func(a pattern) bool { return a != b && a.covers(b) })
	})
}

func compare(a, b pattern) int {
	return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.text(), b.text()), cmp.Compare(a.port, b.port))
}

// A unit is what is written as one word: a pattern, or the pair that a host without
// a port stands for.
type unit []pattern

// units cuts up a minimal list.
func units(list []pattern) (cut []unit) {
	for same := range chunks(list) {
		pair := []pattern{{same[0].wild, same[0].host, portHTTP}, {same[0].wild, same[0].host, portTLS}}
		if covered(same, pair[0]) && covered(same, pair[1]) {
			cut = append(cut, pair)
			same = slices.DeleteFunc(slices.Clone(same), func(p pattern) bool { return slices.Contains(pair, p) })
		}
		for _, p := range same {
			cut = append(cut, unit{p})
		}
	}
	return cut
}

// chunks yields the runs of a sorted list that differ in nothing but the port.
func chunks(list []pattern) func(yield func([]pattern) bool) {
	return func(yield func([]pattern) bool) {
		for len(list) > 0 {
			n := slices.IndexFunc(list, func(p pattern) bool { return p.text() != list[0].text() })
			if n < 0 {
				n = len(list)
			}
			if !yield(list[:n]) {
				return
			}
			list = list[n:]
		}
	}
}

func (u unit) String() string {
	if len(u) > 1 {
		return u[0].text()
	}
	return u[0].text() + ":" + strconv.Itoa(int(u[0].port))
}

// text is the pattern without its port.
func (a pattern) text() string {
	switch {
	case a.wild:
		return "*." + a.host
	case strings.Contains(a.host, ":"):
		return "[" + a.host + "]"
	}
	return a.host
}
