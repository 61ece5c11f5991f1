package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// page serves one page on this machine's loopback, where agents have no business.
func page(t *testing.T) (address string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello from the host") }))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// direct is a command that asks for a page without a proxy, proxied one that asks
// the cage's proxy for it. Both are bash alone.
func direct(address string) string {
	host, port, _ := strings.Cut(address, ":")
	return fetch("/dev/tcp/"+host+"/"+port, "/")
}

func proxied(address string) string { return fetch("/dev/tcp/127.0.0.1/3128", "http://"+address+"/") }

func fetch(device, target string) string {
	return fmt.Sprintf(`bash: exec 3<>%s && printf 'GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' >&3 && cat <&3 || echo cannot connect`, device, target)
}

// Under every policy an agent reaches its model. What else it reaches is what the
// policy says, and local addresses only if the operator allows them.
func TestNetwork(t *testing.T) {
	t.Parallel()
	local, other := page(t), page(t)
	for _, test := range []struct {
		name, policy string
		allow        bool
		direct       bool // reaches the page without a proxy
		proxied      bool // reaches the page through it
		reason       string
	}{
		{name: "internet", reason: "not allowed"},
		{name: "internet, allowed here", allow: true, proxied: true},
		{name: "provider", policy: "provider", allow: true, reason: "not allowed"},
		{name: "patterns", policy: local, allow: true, proxied: true},
		{name: "other patterns", policy: other + ", *.example.com", allow: true, reason: "not allowed"},
		{name: "host", policy: "host", direct: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w, _ := newReal(t)
			if test.allow {
				w.env = append(w.env, "PI_MCP_EGRESS_ALLOW="+local+","+other)
			}
			c := w.client()
			args := obj{}
			if test.policy != "" {
				args["network"] = test.policy
			}
			a := c.run(args)
			reaches(t, "directly", c.ask(a.ID, direct(local)).text(), test.direct, "cannot connect")
			if test.policy == "host" {
				return
			}
			i := c.ask(a.ID, proxied(local))
			reaches(t, "through the proxy", i.text(), test.proxied, test.reason)
			if n := i.Network; n.Connections == 0 || (n.Refused > 0) == test.proxied {
				t.Errorf("counted: %+v", n)
			}
			// The policy is the agent's for life, and what it moved stays counted.
			call[info](c, "rip", obj{"agent_id": a.ID})
			if n := c.info(a.ID).Network; n.BytesIn == 0 || n.Connections != 0 {
				t.Errorf("without a process: %+v", n)
			}
			call[info](c, "resurrect", obj{"agent_id": a.ID})
			reaches(t, "after a resurrection", c.ask(a.ID, proxied(local)).text(), test.proxied, test.reason)
		})
	}
}

// reaches fails unless the answer is the page, or does not have it but the reason.
func reaches(t *testing.T, how, answer string, want bool, reason string) {
	t.Helper()
	got := strings.Contains(answer, "hello from the host")
	if got != want || !want && !strings.Contains(answer, reason) {
		t.Errorf("%s: %s", how, answer)
	}
}

// A cage has a loopback of its own and nothing else: no route, no other device, no
// socket of the host. With the host's network it is the host's.
func TestOwnNetwork(t *testing.T) {
	t.Parallel()
	w, _ := newReal(t)
	c := w.client()
	const look = "bash: cat /proc/net/route | wc -l; cat /proc/net/dev | wc -l; cat /proc/net/unix | wc -l"
	own := c.ask(c.run(nil).ID, look).text()
	hosts := c.ask(c.run(obj{"network": "host"}).ID, look).text()
	if own == hosts {
		t.Errorf("with and without the host's network it sees the same: %s", own)
	}
	if !strings.Contains(own, "1\n3\n") {
		t.Errorf("routes and devices, each with headlines: %s", own)
	}
}

// A policy that is none is refused by the name of the argument, and nothing is made.
func TestBadNetwork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.client()
	for _, bad := range []string{"", "http://example.com/", "*", "example.com:0", "a b c/d"} {
		has(t, bad, c.refused("run", obj{"network": bad}), "network")
	}
	c.none()
	c.run(obj{"network": "example.com"}) // the control
}
