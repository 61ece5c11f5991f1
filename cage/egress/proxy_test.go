package egress_test

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/cage/egress"
)

// outside is an echo server called echo.test, an allowed name for it with its port,
// and a configuration that reaches it.
func outside(t testing.TB) (cfg egress.Config, target string) {
	t.Helper()
	at := origin(t, echo)
	target = fmt.Sprintf("echo.test:%d", at.Port())
	return egress.Config{
		Policy:   parse(t, target),
		Allow:    []netip.AddrPort{at},
		Resolver: names{"echo.test": {"127.0.0.1"}, "other.test": {"127.0.0.1"}},
	}, target
}

func TestTunnel(t *testing.T) {
	cfg, target := outside(t)
	p := proxy(t, cfg)
	address := serve(t, p)
	for _, spelling := range []string{target, strings.ToUpper(target), strings.Replace(target, ":", ".:", 1)} {
		c := dial(t, address)
		if status, body := c.connect(t, spelling); status != http.StatusOK {
			t.Fatalf("%s: %d %s", spelling, status, body)
		}
		c.echoes(t, "hello")
		c.echoes(t, "again")
	}
	want := egress.Counts{Connections: 3, BytesOut: 30, BytesIn: 30}
	p.Close() // what is under way is counted by now
	if diff := cmp.Diff(want, p.Counts()); diff != "" {
		t.Error(diff)
	}
}

// TestTunnelEarly: a client may send before it has been answered.
func TestTunnelEarly(t *testing.T) {
	cfg, target := outside(t)
	c := dial(t, serve(t, proxy(t, cfg)))
	early := strings.Repeat("early", 100)
	if response, body := c.ask(t, "CONNECT "+target+" HTTP/1.1\r\n\r\n"+early); response.StatusCode != http.StatusOK {
		t.Fatal(response.Status, body)
	}
	got := make([]byte, len(early))
	if _, err := io.ReadFull(c.r, got); err != nil || string(got) != early {
		t.Errorf("%q, %v", got, err)
	}
}

func TestRefusedByPolicy(t *testing.T) {
	cfg, target := outside(t)
	address := serve(t, proxy(t, cfg))
	port := target[strings.Index(target, ":")+1:]
	for _, other := range []string{"other.test:" + port, "echo.test:1", "127.0.0.1:" + port, "sub.echo.test:" + port, "absent.test:443"} {
		c := dial(t, address)
		response, body := c.ask(t, "CONNECT "+other+" HTTP/1.1\r\nHost: "+target+"\r\n\r\n")
		want := "egress to " + other + " is not allowed by this agent's network policy"
		if response.StatusCode != http.StatusForbidden || response.Status != "403 "+want || !strings.HasPrefix(body, want+": it allows "+target) {
			t.Errorf("%s: %s, %s", other, response.Status, body)
		}
		if _, err := c.r.ReadByte(); err != io.EOF {
			t.Errorf("%s: the connection stays: %v", other, err)
		}
	}
	if status, body := dial(t, address).connect(t, target); status != http.StatusOK {
		t.Errorf("control: %d %s", status, body)
	}
}

// TestProvider: the operator's own model is reached under every policy, on this
// machine too, but by that name and port only.
func TestProvider(t *testing.T) {
	cfg, target := outside(t)
	cfg.Allow = nil
	port := target[strings.Index(target, ":")+1:]
	for _, policy := range []string{"provider", "a.test", "internet"} {
		cfg.Policy, cfg.Provider = parse(t, policy), target
		address := serve(t, proxy(t, cfg))
		if status, body := dial(t, address).connect(t, target); status != http.StatusOK {
			t.Errorf("%s: %d %s", policy, status, body)
		}
		for _, other := range []string{"other.test:" + port, "127.0.0.1:" + port, "echo.test:1"} {
			if status, body := dial(t, address).connect(t, other); status != http.StatusForbidden {
				t.Errorf("%s: %s: %d %s", policy, other, status, body)
			}
		}
		cfg.Provider = ""
		if status, body := dial(t, serve(t, proxy(t, cfg))).connect(t, target); status != http.StatusForbidden {
			t.Errorf("%s without provider: %d %s", policy, status, body)
		}
	}
}

func TestNewNamesTheProvider(t *testing.T) {
	for _, bad := range []string{"example.com", "https://example.com", "example.com:0", "127.1:80"} {
		if _, err := egress.New(egress.Config{Provider: bad}); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	proxy(t, egress.Config{Provider: "Example.com.:443"})
}

// TestRefusedTargets: what two programs could read differently goes nowhere, even
// where every public address is allowed and the real one by address.
func TestRefusedTargets(t *testing.T) {
	cfg, target := outside(t)
	cfg.Policy = egress.Internet
	p := proxy(t, cfg)
	address := serve(t, p)
	port := target[strings.Index(target, ":"):]
	bad := []string{
		"127.1" + port, "2130706433" + port, "0x7f000001" + port, "0x7f.0.0.1" + port, "0177.0.0.1" + port,
		"017700000001" + port, "127.0.0.01" + port, "127.0.0.1.." + port, "[::ffff:127.0.0.1]" + port, "[::ffff:7f00:1]" + port,
		"user@echo.test" + port, "user:pass@echo.test" + port, "echo.test", "echo.test:", "echo.test:0", "echo.test:65536",
		"echo.test:+80", port, "[]" + port, "[127.0.0.1]" + port, "::1" + port, "echo..test" + port, "echo.test%00" + port, "*.test" + port,
		"%65cho.test" + port, "b\u00fccher.test" + port, "\uff11\uff12\uff17.0.0.1" + port, "http://echo.test" + port, "[::1%25lo]" + port, "/" + target,
	}
	for _, text := range bad {
		if status, body := dial(t, address).connect(t, text); status != http.StatusForbidden && status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", text, status, body)
		}
	}
	for _, url := range []string{
		"http://user@" + target + "/", "http://127.1" + port + "/", "http:///", "http://%65cho.test:0/", "http://[::ffff:127.0.0.1]" + port + "/",
		"https://" + target + "/", "ftp://" + target + "/", "http:" + target, "/", "*",
	} {
		if status, body := dial(t, address).get(t, url); status != http.StatusForbidden && status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", url, status, body)
		}
	}
	if n := p.Counts().Connections; n != 0 {
		t.Errorf("%d connections", n)
	}
	for _, text := range []string{"127.0.0.1" + port, target} {
		if status, body := dial(t, address).connect(t, text); status != http.StatusOK {
			t.Errorf("control: %d %s", status, body)
		}
	}
}

// TestFailures: what is allowed and does not work says why, and nothing of what the
// machine itself knows.
func TestFailures(t *testing.T) {
	cfg, target := outside(t)
	closed := listen(t)
	gone := netip.MustParseAddrPort(closed.Addr().String())
	closed.Close()
	cfg.Policy, cfg.Allow = egress.Internet, append(cfg.Allow, gone)
	address := serve(t, proxy(t, cfg))
	for text, want := range map[string]string{
		"absent.test:443": "cannot find the address of absent.test: no such host\n",
		gone.String():     "cannot connect to " + gone.String() + ": connect: connection refused\n",
	} {
		if status, body := dial(t, address).connect(t, text); status != http.StatusBadGateway || body != want {
			t.Errorf("%s: %d %q", text, status, body)
		}
		if status, body := dial(t, address).get(t, "http://"+text+"/"); status != http.StatusBadGateway || body != want {
			t.Errorf("%s: %d %q", text, status, body)
		}
	}
	if status, body := dial(t, address).connect(t, target); status != http.StatusOK {
		t.Errorf("control: %d %s", status, body)
	}
}
