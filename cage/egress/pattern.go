package egress

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// A pattern is one host and one port, or every name below a domain.
type pattern struct {
	host string // a name, an address (IPv6 in brackets), or .domain for what is below
	port uint16
}

// exactly is the pattern for one host, which is as parseHost writes it.
func exactly(host string, port uint16) pattern {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return pattern{host, port}
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
	only := exactly(host, portTLS)
	if wild {
		only.host = "." + host
	}
	if portText == "" {
		return []pattern{only, {only.host, portHTTP}}, nil
	}
	only.port, err = parsePort(portText)
	return []pattern{only}, err
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
	return a == b || a.port == b.port && a.host[0] == '.' && strings.HasSuffix(b.host, a.host)
}

// A set is a list to look things up in.
type set map[pattern]struct{}

func newSet(list []pattern) set {
	s := make(set, len(list))
	for _, p := range list {
		s[p] = struct{}{}
	}
	return s
}

func (s set) has(p pattern) bool {
	_, ok := s[p]
	return ok
}

// covers reports whether one of the patterns covers p.
func (s set) covers(p pattern) bool { return s.has(p) || s.exceeds(p) }

// exceeds is covers by one that is not p itself.
func (s set) exceeds(p pattern) bool {
	for i := 1; i < len(p.host); i++ {
		if p.host[i] == '.' && s.has(pattern{p.host[i:], p.port}) {
			return true
		}
	}
	return false
}

// minimal sorts a list and leaves out what the rest of it covers. Lists that match
// the same become the same list.
func minimal(list []pattern) []pattern {
	list = slices.Clone(list)
	slices.SortFunc(list, compare)
	list = slices.Compact(list)
	return slices.DeleteFunc(list, newSet(list).exceeds)
}

func compare(a, b pattern) int {
	return cmp.Or(cmp.Compare(a.host, b.host), cmp.Compare(a.port, b.port))
}

// A unit is what is written as one word: a pattern, or the pair that a host without
// a port stands for.
type unit []pattern

// units cuts up a minimal list.
func units(list []pattern) (cut []unit) {
	for same := range chunks(list) {
		pair := unit{{same[0].host, portHTTP}, {same[0].host, portTLS}}
		if slices.Contains(same, pair[0]) && slices.Contains(same, pair[1]) {
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
			n := slices.IndexFunc(list, func(p pattern) bool { return p.host != list[0].host })
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
	text := u[0].host
	if text[0] == '.' {
		text = "*" + text
	}
	if len(u) > 1 {
		return text
	}
	return text + ":" + strconv.Itoa(int(u[0].port))
}
