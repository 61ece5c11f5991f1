package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// A refusal is an answer, not a fault: the agent may not go there.
type refusal struct {
	to  string // as it may be shown
	why string
}

func (r *refusal) Error() string {
	return "egress to " + r.to + " is not allowed by this agent's network policy: " + r.why
}

// portSMTP is closed to everybody: nothing that an agent does needs to send mail to
// strangers' servers from the operator's address.
const portSMTP = 25

// maxAddresses of one name are tried.
const maxAddresses = 8

// connect is the only way out. The address that is dialled is the one that was
// checked, so a name cannot change its mind in between. The error is a *refusal if
// the agent may not go there, and else says why that failed.
func (p *Proxy) connect(ctx context.Context, t target) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if t != p.provider && !p.rules.allow(t) {
		return nil, &refusal{t.String(), p.describe()}
	}
	addrs, err := p.resolve(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("cannot find the address of %s: %w", t.host, cause(err))
	}
	addrs, err = p.permitted(t, addrs)
	if err != nil {
		return nil, err
	}
	attempts := race{dial: p.dial, results: make(chan result)}
	conn, err := attempts.run(ctx, addrs[:min(len(addrs), maxAddresses)])
	if err != nil {
		return nil, fmt.Errorf("cannot connect to %s: %w", t, cause(err))
	}
	p.connections.Add(1)
	return conn, nil
}

func (p *Proxy) resolve(ctx context.Context, t target) ([]netip.AddrPort, error) {
	if t.addr.IsValid() {
		return []netip.AddrPort{netip.AddrPortFrom(t.addr, t.port)}, nil
	}
	addrs, err := p.resolver.LookupNetIP(ctx, "ip", t.host)
	if err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, errors.New("it has none")
	}
	found := make([]netip.AddrPort, len(addrs))
	for i, a := range addrs {
		found[i] = netip.AddrPortFrom(a.Unmap(), t.port) // the resolver writes IPv4 as mapped
	}
	return found, nil
}

// permitted returns the addresses that may be dialled, in their order. A name that
// has others besides is not refused: behind a DNS64 every name has a translated
// address. The error does not tell the agent the addresses of names inside.
func (p *Proxy) permitted(t target, addrs []netip.AddrPort) ([]netip.AddrPort, error) {
	if t == p.provider {
		return addrs, nil
	}
	own, err := p.own()
	if err != nil {
		return nil, fmt.Errorf("cannot read the addresses of this machine: %w", err)
	}
	var why string
	addrs = slices.DeleteFunc(addrs, func(a netip.AddrPort) bool {
		reason := p.objection(a, own)
		if reason != "" {
			p.log.Debug("egress address", "to", t.String(), "address", a.Addr().String(), "is", reason)
			why = reason
		}
		return reason != ""
	})
	if len(addrs) == 0 {
		return nil, &refusal{t.String(), why + "; only the operator of pi-mcp can allow that, with --egress-allow ADDRESS:PORT"}
	}
	return addrs, nil
}

// objection says why an address may not be dialled, "" if it may.
func (p *Proxy) objection(a netip.AddrPort, own []netip.Addr) string {
	switch kind := kindOf(p.special, a.Addr()); {
	case slices.Contains(p.allow, a):
		return ""
	case a.Port() == portSMTP:
		return "port 25 (mail) is closed"
	case kind != "":
		return "it is " + kind
	case slices.Contains(own, a.Addr()):
		return "it is an address of this machine"
	}
	return ""
}

// describe says what the policy does allow.
func (p *Proxy) describe() string {
	model := "the model's own host"
	if p.provider != (target{}) {
		model = p.provider.String()
	}
	if p.rules.level == levelProvider {
		return "it allows " + model + " only"
	}
	return "it allows " + bounded(p.policy) + " and " + model
}

// cause is what went wrong without the addresses of this machine's resolvers.
func cause(err error) error {
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return errors.New(dns.Err)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}
