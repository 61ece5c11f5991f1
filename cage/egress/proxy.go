package egress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Defaults and fixed bounds. A model may think for minutes without sending a byte,
// which is what the idle time allows for.
const (
	defaultMaxConns = 256
	defaultHeader   = 10 * time.Second
	defaultIdle     = 15 * time.Minute

	maxHeader      = 32 << 10
	connectTimeout = 15 * time.Second
)

// A Config says what one agent may reach.
type Config struct {
	// Policy is the agent's. The zero value allows the provider only.
	Policy Policy

	// Provider is host:port of the model. It is allowed under every policy,
	// wherever its name leads, because the operator's own configuration names
	// it: never take it from what an agent can write. Empty means none.
	Provider string

	// Allow are private or local addresses that the operator lets agents reach.
	// They lift the ban on such addresses, they add nothing to the policy.
	Allow []netip.AddrPort

	// MaxConns is how many connections the agent may hold open at a time.
	// Zero means 256.
	MaxConns int

	// HeaderTimeout is how long a request may take to arrive, without its body.
	// Zero means 10 seconds.
	HeaderTimeout time.Duration

	// IdleTimeout is how long a connection may go without a byte in either
	// direction. Zero means 15 minutes.
	IdleTimeout time.Duration

	// Resolver looks up names. Nil means the machine's own.
	Resolver Resolver

	// Log receives a line for each connection at debug level, and one for each
	// of the first hundred refusals at info level, later ones at debug too: an
	// agent must not be able to fill the server's log. Nil means no log.
	Log *slog.Logger
}

// A Resolver finds the addresses of a name. *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Counts are what has gone through a Proxy since it was made. They grow while a
// connection lasts. Bytes are the contents of tunnels, and of plain HTTP the headers
// too.
type Counts struct {
	Connections int64 // made to the outside
	Refused     int64 // by the policy or for the address
	BytesOut    int64 // from the agent
	BytesIn     int64 // to the agent
}

// A Proxy is one agent's way out: an HTTP proxy that takes CONNECT for anything and
// absolute http URLs for plain HTTP. Its methods may be called from any goroutine.
type Proxy struct {
	policy   Policy
	rules    rules
	provider target
	allow    []netip.AddrPort
	special  []block
	resolver Resolver
	dial     dialFunc
	own      func() ([]netip.Addr, error)
	maxConns int
	idle     time.Duration
	log      *slog.Logger

	server *http.Server
	slots  chan struct{} // one for each connection there may be, see listener
	ctx    context.Context
	cancel context.CancelFunc

	connections, refused, out, in atomic.Int64

	handlers sync.WaitGroup // added to under mu, and not once closed
	mu       sync.Mutex     // protects the fields below
	closed   bool
	conns    map[*clientConn]struct{}
}

// New returns a proxy that serves nothing yet. The error says what is wrong with
// cfg.Provider.
func New(cfg Config) (*Proxy, error) {
	p := &Proxy{
		policy: Policy(cfg.Policy.String()), rules: cfg.Policy.rules(), special: blocks(),
		resolver: cfg.Resolver, dial: dialTCP, own: ownAddresses, log: cfg.Log,
		maxConns: cmp.Or(cfg.MaxConns, defaultMaxConns), idle: cmp.Or(cfg.IdleTimeout, defaultIdle),
		conns: map[*clientConn]struct{}{},
	}
	for _, a := range cfg.Allow {
		p.allow = append(p.allow, netip.AddrPortFrom(a.Addr().Unmap(), a.Port()))
	}
	if cfg.Provider != "" {
		provider, err := parseTarget(cfg.Provider, 0)
		if err != nil {
			return nil, fmt.Errorf("cannot use %s as the provider's host:port: %w", quoted(cfg.Provider), err)
		}
		p.provider = provider
	}
	if p.resolver == nil {
		p.resolver = net.DefaultResolver
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	p.slots = make(chan struct{}, p.maxConns+spareConns)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.server = p.newServer(cmp.Or(cfg.HeaderTimeout, defaultHeader))
	return p, nil
}

func (p *Proxy) newServer(header time.Duration) *http.Server {
	return &http.Server{
		Handler:                      http.HandlerFunc(p.handle),
		ReadHeaderTimeout:            header,
		IdleTimeout:                  p.idle,
		MaxHeaderBytes:               maxHeader,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
		BaseContext:                  func(net.Listener) context.Context { return p.ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, clientKey{}, c)
		},
	}
}

// Serve answers what connects to l until Close, which closes l, and then returns nil.
// It may be called for several listeners.
func (p *Proxy) Serve(l net.Listener) error {
	err := p.server.Serve(&listener{l, p})
	if errors.Is(err, http.ErrServerClosed) || p.ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("cannot serve the egress proxy: %w", err)
}

// Close ends every connection and returns when nothing is done for any of them any
// more. It may be called again.
func (p *Proxy) Close() {
	p.cancel()
	p.mu.Lock()
	p.closed = true
	open := slices.Collect(maps.Keys(p.conns))
	p.mu.Unlock()
	p.server.Close()
	for _, c := range open {
		c.Close()
	}
	p.handlers.Wait()
}

// Counts returns the counts so far.
func (p *Proxy) Counts() Counts {
	return Counts{p.connections.Load(), p.refused.Load(), p.out.Load(), p.in.Load()}
}
