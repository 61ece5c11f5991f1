package egress_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"pi-mcp/cage/egress"
)

// network records what is dialled and connects to nothing.
type network struct {
	mu     sync.Mutex
	dialed []netip.AddrPort
}

func (n *network) dial(_ context.Context, a netip.AddrPort) (net.Conn, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dialed = append(n.dialed, a)
	return nil, errors.New("dialled")
}

// taken returns what was dialled since it was called last.
func (n *network) taken() []netip.AddrPort {
	n.mu.Lock()
	defer n.mu.Unlock()
	defer func() { n.dialed = nil }()
	return n.dialed
}

var special = []string{
	"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.255.254",
	"169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.170", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1",
	"198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
	"::", "::1", "::7f00:1", "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::a00:1", "100::1",
	"2001::1", "2001:0:7f00:1::", "2001:db8::1", "2002:7f00:1::1", "2002:808:808::1", "3fff::1", "4000::1", "5f00::1",
	"fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "ffff::1",
}

var public = []string{
	"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.1", "100.63.255.255", "100.128.0.1", "126.255.255.255", "128.0.0.1",
	"169.253.0.1", "172.15.255.255", "172.32.0.1", "192.0.1.1", "192.167.0.1", "192.169.0.1", "198.17.0.1", "198.20.0.1", "223.255.255.255",
	"2001:200::1", "2001:4860:4860::8888", "2003::1", "2606:4700::1111", "2a00::1", "3ffe::1",
}

// TestSpecialAddresses: none is reached, neither as such nor through a name, unless
// the operator allows it by address and port.
func TestSpecialAddresses(t *testing.T) {
	resolver := names{}
	for i, a := range slices.Concat(special, public) {
		resolver["n"+string(rune('a'+i/26))+string(rune('a'+i%26))+".test"] = []string{a}
	}
	var outside network
	open := func(allow ...netip.AddrPort) string {
		p := proxy(t, egress.Config{Policy: egress.Internet, Resolver: resolver, Allow: allow})
		p.Dial(outside.dial)
		return serve(t, p)
	}
	address := open()
	for name, addrs := range resolver {
		at := netip.AddrPortFrom(netip.MustParseAddr(addrs[0]), 443)
		isPublic := slices.Contains(public, addrs[0])
		for _, target := range []string{name + ":443", at.String()} {
			status, body := dial(t, address).connect(t, target)
			dialed := outside.taken()
			switch {
			case isPublic && (status != http.StatusBadGateway || !slices.Equal(dialed, []netip.AddrPort{at})):
				t.Errorf("%s (%s): %d %s, dialled %s", target, at, status, body, dialed)
			case !isPublic && (status != http.StatusForbidden || len(dialed) > 0):
				t.Errorf("%s (%s): %d %s, dialled %s", target, at, status, body, dialed)
			case !isPublic && strings.HasPrefix(target, "n") && strings.Contains(body, addrs[0]):
				t.Errorf("the agent learns an address: %s", body)
			}
		}
	}
	for _, a := range special {
		at := netip.AddrPortFrom(netip.MustParseAddr(a), 443)
		address := open(at)
		status, body := dial(t, address).connect(t, at.String())
		if dialed := outside.taken(); !slices.Equal(dialed, []netip.AddrPort{at}) {
			t.Errorf("control: %s: %d %s", at, status, body)
		}
		other := netip.AddrPortFrom(at.Addr(), 444).String()
		if status, body := dial(t, address).connect(t, other); status != http.StatusForbidden || len(outside.taken()) > 0 {
			t.Errorf("%s: %d %s", other, status, body)
		}
	}
}

// TestMappedAnswers: a resolver may answer with IPv4 addresses mapped into IPv6.
func TestMappedAnswers(t *testing.T) {
	var outside network
	p := proxy(t, egress.Config{Policy: egress.Internet, Resolver: names{
		"in.test": {"::ffff:127.0.0.1"}, "out.test": {"::ffff:8.8.8.8"},
	}})
	p.Dial(outside.dial)
	address := serve(t, p)
	if status, body := dial(t, address).connect(t, "in.test:443"); status != http.StatusForbidden || !strings.Contains(body, "address of this machine") {
		t.Errorf("%d %s", status, body)
	}
	dial(t, address).connect(t, "out.test:443")
	if got := outside.taken(); !slices.Equal(got, []netip.AddrPort{netip.MustParseAddrPort("8.8.8.8:443")}) {
		t.Errorf("dialled %s", got)
	}
}

// TestMixedAnswers: of several addresses only those that may be are dialled, eight at
// most.
func TestMixedAnswers(t *testing.T) {
	var outside network
	many := slices.Repeat([]string{"8.8.4.4"}, 50)
	p := proxy(t, egress.Config{Policy: egress.Internet, Resolver: names{
		"mixed.test": {"127.0.0.1", "8.8.8.8", "fd00::1", "9.9.9.9"}, "many.test": many,
	}})
	p.Dial(outside.dial)
	address := serve(t, p)
	dial(t, address).connect(t, "mixed.test:443")
	want := []netip.AddrPort{netip.MustParseAddrPort("8.8.8.8:443"), netip.MustParseAddrPort("9.9.9.9:443")}
	if got := outside.taken(); !slices.Equal(got, want) {
		t.Errorf("dialled %s", got)
	}
	dial(t, address).connect(t, "many.test:443")
	if got := outside.taken(); len(got) != 8 {
		t.Errorf("dialled %d times", len(got))
	}
}
