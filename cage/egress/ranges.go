package egress

import (
	"net"
	"net/netip"
)

// A special range is one that no agent reaches through the proxy unless the operator
// names the address: it leads back to this machine or into its network, or to
// whatever a translator makes of it.
type special struct {
	prefix string
	kind   string
}

// From the IANA registries of special-purpose addresses, IPv4 and IPv6, and of the
// latter only the ones in global unicast space; see kindOf for the rest.
var specials = [...]special{
	{"0.0.0.0/8", "an address of this machine"},
	{"10.0.0.0/8", "a private address"},
	{"100.64.0.0/10", "a private address"},
	{"127.0.0.0/8", "an address of this machine"},
	{"169.254.0.0/16", "a link-local address"},
	{"172.16.0.0/12", "a private address"},
	{"192.0.0.0/24", "a reserved address"},
	{"192.0.2.0/24", "a reserved address"},
	{"192.88.99.0/24", "a 6to4 relay"},
	{"192.168.0.0/16", "a private address"},
	{"198.18.0.0/15", "a private address"},
	{"198.51.100.0/24", "a reserved address"},
	{"203.0.113.0/24", "a reserved address"},
	{"224.0.0.0/4", "a multicast address"},
	{"240.0.0.0/4", "a reserved address"},
	{"::1/128", "an address of this machine"},
	{"::ffff:0:0/96", "a mapped IPv4 address"},
	{"64:ff9b::/96", "a translated IPv4 address"},
	{"64:ff9b:1::/48", "a translated IPv4 address"},
	{"2001::/23", "a reserved address"},
	{"2001:db8::/32", "a reserved address"},
	{"2002::/16", "a 6to4 address"},
	{"3fff::/20", "a reserved address"},
	{"fc00::/7", "a private address"},
	{"fe80::/10", "a link-local address"},
	{"ff00::/8", "a multicast address"},
}

// A block is a special range, read.
type block struct {
	prefix netip.Prefix
	kind   string
}

// blocks reads the table.
func blocks() (read []block) {
	for _, s := range specials {
		read = append(read, block{netip.MustParsePrefix(s.prefix), s.kind})
	}
	return read
}

// kindOf says what is special about an address, "" if nothing is. What is not known
// to be public is not: of IPv6 only 2000::/3 is in use, so that compatible, translated
// and discarded addresses need no entry, nor does what is assigned in future.
func kindOf(read []block, addr netip.Addr) string {
	for _, b := range read {
		if b.prefix.Contains(addr) {
			return b.kind
		}
	}
	if addr.Is6() && addr.As16()[0]>>5 != 1 {
		return "not a public address"
	}
	return ""
}

// ownAddresses asks the kernel for the addresses of this machine's interfaces. They
// come and go, so it is asked for every connection.
func ownAddresses() ([]netip.Addr, error) {
	nets, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	own := make([]netip.Addr, 0, len(nets))
	for _, n := range nets {
		prefix, err := netip.ParsePrefix(n.String())
		if err != nil {
			return nil, err
		}
		own = append(own, prefix.Addr().Unmap().WithZone(""))
	}
	return own, nil
}
