package egress

import (
	"context"
	"net"
	"net/netip"
)

// Allows is the policy's own word on host:port, without the provider.
func (p Policy) Allows(text string) bool {
	t, err := parseTarget(text, 0)
	return err == nil && p.rules().allow(t)
}

// Target is the canonical spelling of what a client asks for.
func Target(text string) (string, error) {
	t, err := parseTarget(text, 0)
	return t.String(), err
}

// Dial replaces the network.
func (p *Proxy) Dial(dial func(context.Context, netip.AddrPort) (net.Conn, error)) { p.dial = dial }

// Own replaces the addresses of this machine.
func (p *Proxy) Own(own func() ([]netip.Addr, error)) { p.own = own }

// SpareConns is how many connections beyond the limit are told of it.
const SpareConns = spareConns
