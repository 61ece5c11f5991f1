package egress

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// A target is where a client wants to go. Targets that mean the same are equal.
type target struct {
	host string     // as parseHost writes it
	addr netip.Addr // if host is one
	port uint16
}

func (t target) String() string { return net.JoinHostPort(t.host, strconv.Itoa(int(t.port))) }

// parseTarget reads host:port. With a port of 0 the text must name one, else that is
// the one if it does not.
func parseTarget(text string, port uint16) (target, error) {
	if len(text) > maxPattern+len(":65535") {
		return target{}, errors.New("a host name has at most 253 characters")
	}
	hostText, portText, err := splitPort(text)
	if err != nil {
		return target{}, err
	}
	host, addr, err := parseHost(hostText)
	if err != nil {
		return target{}, err
	}
	if portText == "" && port != 0 {
		return target{host, addr, port}, nil
	}
	port, err = parsePort(portText)
	return target{host, addr, port}, err
}

// splitPort cuts off the port; its text is empty if there is none.
func splitPort(text string) (host, port string, err error) {
	if inner, ok := strings.CutPrefix(text, "["); ok {
		host, rest, ok := strings.Cut(inner, "]")
		port, colon := strings.CutPrefix(rest, ":")
		if !ok || !strings.Contains(host, ":") || (rest != "" && (!colon || port == "")) {
			return "", "", errors.New("the brackets of an IPv6 address are written [2001:db8::1]:443")
		}
		return host, port, nil
	}
	if strings.Count(text, ":") > 1 {
		return text, "", nil // an IPv6 address; parseHost will see
	}
	host, port, colon := strings.Cut(text, ":")
	if colon && port == "" {
		return "", "", errors.New("the port after the colon is missing")
	}
	return host, port, nil
}

// parsePort accepts one spelling of each port, so that none can be missed.
func parsePort(text string) (uint16, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 || strings.HasPrefix(text, "0") {
		return 0, errors.New("the port must be a number from 1 to 65535")
	}
	return uint16(port), nil
}

// parseHost returns the one spelling of a host: lower case, no trailing dot, an
// address as netip writes it. It refuses whatever two programs could read
// differently, above all the old spellings of IPv4 addresses (127.1, 0x7f000001,
// 017700000001), which the C library resolves and netip does not.
func parseHost(text string) (string, netip.Addr, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		switch {
		case addr.Zone() != "":
			return "", netip.Addr{}, errors.New("addresses with a zone are local to a machine")
		case addr.Is4In6():
			return "", netip.Addr{}, errors.New("write an IPv4 address as such, not mapped into IPv6")
		}
		return addr.String(), addr, nil
	}
	name := strings.ToLower(strings.TrimSuffix(text, "."))
	if err := checkName(name); err != nil {
		return "", netip.Addr{}, err
	}
	return name, netip.Addr{}, nil
}

func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("the host is missing")
	case len(name) > maxPattern:
		return errors.New("a host name has at most 253 characters")
	case strings.Contains(name, ":"):
		return errors.New("this is no IPv6 address; with a port one is written [2001:db8::1]:443")
	}
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		if err := checkLabel(label); err != nil {
			return err
		}
		last = label
	}
	// The rule of browsers for telling an address from a name.
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return errors.New("a name cannot end in a number; an IPv4 address is written as four decimal numbers, as in 192.0.2.1")
	}
	return nil
}

func checkLabel(label string) error {
	if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
		return errors.New("this is no host name: between its dots there must be 1 to 63 characters, with no hyphen at either end")
	}
	for _, r := range label {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
		case r > 127:
			return errors.New("write the name in its ASCII form, which begins with xn--")
		default:
			return errors.New("a host name has letters, digits, hyphens and dots only")
		}
	}
	return nil
}

// quoted makes what a stranger wrote fit for a message: one line of ASCII, not long.
func quoted(text string) string {
	const most = 100
	if len(text) > most {
		return strconv.QuoteToASCII(text[:most]) + "..."
	}
	return strconv.QuoteToASCII(text)
}
