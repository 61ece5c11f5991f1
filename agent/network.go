package agent

import (
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"pi-mcp/agent/pi"
	"pi-mcp/cage/egress"
)

// proxyAddress is where every cage with a network of its own finds its proxy.
const proxyAddress = "127.0.0.1:3128"

// A Network says what an agent may reach and what it has moved.
type Network struct {
	Policy      []string `json:"policy" jsonschema:"provider, internet, host, or the patterns of hosts that it may reach"`
	Connections int64    `json:"connections" jsonschema:"made by the live process"`
	Refused     int64    `json:"refused" jsonschema:"of the live process"`
	BytesOut    int64    `json:"bytes_out" jsonschema:"by all its processes, counted in pieces and when a connection ends; not counted with policy host"`
	BytesIn     int64    `json:"bytes_in" jsonschema:"by all its processes, counted in pieces and when a connection ends; not counted with policy host"`
}

// checkNetwork reads a policy; "" is the server's.
func (s *Supervisor) checkNetwork(text string) (egress.Policy, error) {
	if text == "" {
		return s.cfg.Network, nil
	}
	p, err := egress.Parse([]string{text})
	if err != nil {
		return p, &ArgError{"network", err.Error()}
	}
	return p, nil
}

// policyOf is the policy of a stored agent.
func policyOf(text string) egress.Policy { return egress.Policy(text) }

// proxyEnv is the environment that makes programs use the proxy. What runs on the
// cage's own loopback is reached directly, unless that is where the model is; the
// endpoint is in any case.
func proxyEnv(modelHost string) []string {
	const proxy = "http://" + proxyAddress
	direct := slices.DeleteFunc([]string{"localhost", "127.0.0.1", "::1"}, func(h string) bool { return h == hostOnly(modelHost) })
	no := strings.Join(append(direct, endpointAddress), ",")
	return []string{
		"HTTP_PROXY=" + proxy, "HTTPS_PROXY=" + proxy, "http_proxy=" + proxy, "https_proxy=" + proxy,
		"NO_PROXY=" + no, "no_proxy=" + no, "NODE_USE_ENV_PROXY=1",
	}
}

// searchPath is where an agent's programs are looked for. The Node.js that runs pi
// comes first: NODE_USE_ENV_PROXY means nothing to older ones, such as Debian's 20.
func searchPath(program string) string {
	const system = "/opt/pi-mcp/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	if filepath.Base(program) != "node" {
		return system
	}
	return filepath.Dir(program) + ":" + system
}

// hostPort is the host and the port of a URL, "" for what is none.
func hostPort(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "http":
		port = "80"
	default:
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

func hostOnly(hostPort string) string {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return ""
	}
	return host
}

// modelHost is where the model of a start is: what an earlier start found out, or
// what the host's own files say.
func modelHost(stored string, files map[string][]byte, provider, model string) string {
	if stored != "" {
		return stored
	}
	return hostPort(pi.BaseURL(files, provider, model))
}

// connect opens the agent's way out, once the handshake has told where the model
// is. It runs in loop. Connections made before wait in the listener.
func (a *liveAgent) connect(p *process) {
	listeners := p.proc.Listeners()
	if len(listeners) == 0 {
		return // policy host
	}
	proxy, err := egress.New(egress.Config{
		Policy: policyOf(a.row.Network), Provider: a.row.ModelHost, Allow: a.sup.cfg.EgressAllow,
		Log: a.sup.cfg.Log.With("agent", a.id),
	})
	if err != nil {
		a.sup.cfg.Log.Error("cannot open an agent's network", "agent", a.id, "err", err)
		listeners[0].Close()
		return
	}
	a.proxy.Store(proxy)
	go func() { _ = proxy.Serve(listeners[0]) }() // ends with disconnect
}

// disconnect ends the way out and counts what went through.
func (a *liveAgent) disconnect() {
	if p := a.proxy.Load(); p != nil {
		p.Close()
		c := p.Counts()
		a.row.BytesOut += c.BytesOut
		a.row.BytesIn += c.BytesIn
		a.proxy.Store(nil)
	}
}

// network is what clients are told of an agent's network.
func (a *liveAgent) network(n Network) Network {
	if p := a.proxy.Load(); p != nil {
		c := p.Counts()
		n.Connections, n.Refused = c.Connections, c.Refused
		n.BytesOut += c.BytesOut
		n.BytesIn += c.BytesIn
	}
	return n
}
