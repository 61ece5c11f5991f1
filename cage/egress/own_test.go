package egress_test

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"pi-mcp/cage/egress"
)

// TestOwnAddresses: a public address that this machine has is read anew for every
// connection, and without knowing them there is none.
func TestOwnAddresses(t *testing.T) {
	var outside network
	var own []netip.Addr
	var fault error
	p := proxy(t, egress.Config{Policy: egress.Internet})
	p.Dial(outside.dial)
	p.Own(func() ([]netip.Addr, error) { return own, fault })
	address := serve(t, p)
	try := func() (int, string, int) {
		status, body := dial(t, address).connect(t, "9.9.9.9:443")
		return status, body, len(outside.taken())
	}
	if _, body, dialed := try(); dialed != 1 {
		t.Errorf("control: %s", body)
	}
	own = []netip.Addr{netip.MustParseAddr("9.9.9.9")}
	if status, body, dialed := try(); status != http.StatusForbidden || dialed != 0 || !strings.Contains(body, "address of this machine") {
		t.Errorf("%d %s", status, body)
	}
	own, fault = nil, errors.New("no netlink")
	if status, body, dialed := try(); status != http.StatusBadGateway || dialed != 0 {
		t.Errorf("%d %s", status, body)
	}
}

// TestRealOwnAddresses: the addresses of this machine's real interfaces.
func TestRealOwnAddresses(t *testing.T) {
	address := serve(t, proxy(t, egress.Config{Policy: egress.Internet}))
	nets, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nets {
		a := netip.MustParsePrefix(n.String()).Addr()
		if status, body := dial(t, address).connect(t, netip.AddrPortFrom(a, 80).String()); status != http.StatusForbidden {
			t.Errorf("%s: %d %s", a, status, body)
		}
	}
}

// TestMail: port 25 is closed whatever the policy, unless the operator opens it.
func TestMail(t *testing.T) {
	var outside network
	mx := netip.MustParseAddrPort("9.9.9.9:25")
	for _, allow := range [][]netip.AddrPort{nil, {mx}} {
		for _, policy := range []string{"internet", "9.9.9.9:25", "host"} {
			p := proxy(t, egress.Config{Policy: parse(t, policy), Allow: allow})
			p.Dial(outside.dial)
			status, body := dial(t, serve(t, p)).connect(t, mx.String())
			if dialed := outside.taken(); (len(dialed) == 1) != (allow != nil) || (status == http.StatusForbidden) == (allow != nil) {
				t.Errorf("%s, allowed %s: %d %s, dialled %s", policy, allow, status, body, dialed)
			}
		}
	}
}

// TestAllowIsNoPolicy: what the operator allows must be in the policy all the same.
func TestAllowIsNoPolicy(t *testing.T) {
	cfg, target := outside(t)
	byAddress := cfg.Allow[0].String()
	cfg.Policy = egress.Provider
	for _, text := range []string{target, byAddress} {
		if status, body := dial(t, serve(t, proxy(t, cfg))).connect(t, text); status != http.StatusForbidden {
			t.Errorf("%s: %d %s", text, status, body)
		}
	}
	cfg.Policy = egress.Internet
	if status, body := dial(t, serve(t, proxy(t, cfg))).connect(t, byAddress); status != http.StatusOK {
		t.Errorf("control: %d %s", status, body)
	}
}
