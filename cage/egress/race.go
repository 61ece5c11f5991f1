package egress

import (
	"context"
	"net"
	"net/netip"
	"time"
)

// headStart is what one address has before the next is tried as well, as in RFC 8305.
const headStart = 300 * time.Millisecond

type dialFunc func(context.Context, netip.AddrPort) (net.Conn, error)

func dialTCP(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", a.String())
}

// A race is the attempts at the addresses of one name. One goroutine for each that is
// under way, and none is left when run returns.
type race struct {
	dial    dialFunc
	results chan result
	running int
}

type result struct {
	conn net.Conn
	err  error
}

// run dials the addresses one after the other, the next when one has failed or has
// had its head start, and returns the first connection or the first error.
func (r *race) run(ctx context.Context, addrs []netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer r.drain()
	defer cancel()
	var first error
	for r.running > 0 || len(addrs) > 0 {
		var start <-chan time.Time
		if len(addrs) > 0 {
			r.start(ctx, addrs[0])
			addrs = addrs[1:]
			start = time.After(headStart)
		}
		select {
		case got := <-r.results:
			r.running--
			if got.err == nil {
				return got.conn, nil
			}
			if first == nil {
				first = got.err
			}
		case <-start:
		}
	}
	return nil, first
}

func (r *race) start(ctx context.Context, a netip.AddrPort) {
	r.running++
	go func() {
		conn, err := r.dial(ctx, a)
		r.results <- result{conn, err}
	}()
}

// drain waits for the attempts that lost, and closes what they got all the same.
func (r *race) drain() {
	for ; r.running > 0; r.running-- {
		if late := <-r.results; late.conn != nil {
			late.conn.Close()
		}
	}
}
