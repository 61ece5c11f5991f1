package egress_test

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"pi-mcp/cage/egress"
)

// FuzzTarget: what is read as a target has one spelling, names a host in plain ASCII
// and a port, and is an address for us if it is one for anybody.
func FuzzTarget(f *testing.F) {
	for _, seed := range []string{
		"example.com:443", "EXAMPLE.com.:80", "127.1:80", "0x7f.1:80", "[::1]:443", "[::ffff:1.2.3.4]:1", "[fe80::1%lo]:2", "a:0", "::1",
		"user@a:1", "xn--a:65536", "\uff11.1.1.1:80", "a..b:1", "1.2.3.4.:5", "[1.2.3.4]:5", "a.0:1", "_a.b-c:09",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := egress.Target(text)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("%q: %q", text, err)
			}
			return
		}
		if again, err := egress.Target(got); err != nil || again != got {
			t.Errorf("%q = %q, again = %q, %v", text, got, again, err)
		}
		host, port, err := net.SplitHostPort(got)
		if n, _ := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			t.Errorf("%q = %q", text, got)
		}
		if strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789.-_:") != "" {
			t.Errorf("%q = %q", text, got)
		}
		if addr, err := netip.ParseAddr(host); err == nil && (addr.Is4In6() || addr.Zone() != "") || err != nil && strings.Contains(host, ":") {
			t.Errorf("%q = %q", text, got)
		}
		if last := host[strings.LastIndex(host, ".")+1:]; err != nil && strings.Trim(last, "0123456789") == "" {
			t.Errorf("%q = %q, which ends in a number", text, got)
		}
	})
}

// FuzzParse: a policy that can be read can be read again, says the same then, and
// allows what it names.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"provider", "internet", "host", "a.test", "*.a.test:22,a.test", "a:80,a:443", "[::1]:5", "::1", "1.2.3.4", "*", "x,,y", "*.1.2.3.4", "a.test.:80",
	} {
		f.Add(seed, "example.com:443")
	}
	f.Fuzz(func(t *testing.T, text, target string) {
		p, err := egress.Parse([]string{text})
		if err != nil {
			return
		}
		if again, err := egress.Parse([]string{string(p)}); err != nil || again != p || p.String() != string(p) {
			t.Errorf("%q = %q, again = %q, %v", text, p, again, err)
		}
		if !p.Within(p) || !egress.Provider.Within(p) || !p.Within(egress.Host) {
			t.Errorf("%q is out of order", p)
		}
		if narrow, err := egress.Narrow(p, p); err != nil || narrow != p {
			t.Errorf("%q narrowed to itself = %q, %v", p, narrow, err)
		}
		if p.Allows(target) != p.Allows(strings.ToUpper(target)) {
			t.Errorf("%q: the case of %q counts", p, target)
		}
		for _, word := range p.Strings() {
			concrete := strings.Replace(word, "*.", "x.", 1)
			if p != egress.Provider && !p.Allows(concrete) && !p.Allows(concrete+":443") {
				t.Errorf("%q does not allow %q", p, concrete)
			}
		}
	})
}

// FuzzRequest: no request reaches anything but what the policy names, whatever it
// looks like, and nothing upsets the proxy.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		"CONNECT a.test:443 HTTP/1.1\r\n\r\n", "GET http://a.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n", "CONNECT b.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST http://a.test HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\nGET http://b.test/ HTTP/1.1\r\n\r\n",
		"CONNECT http://a.test:443 HTTP/1.1\r\n\r\n", "GET http://a.test@b.test/ HTTP/1.0\r\n\r\n",
	} {
		f.Add(seed)
	}
	var outside network
	p := proxy(f, egress.Config{Policy: parse(f, "a.test"), Resolver: names{"a.test": {"8.8.8.8"}, "b.test": {"9.9.9.9"}}})
	p.Dial(outside.dial)
	address := serve(f, p)
	f.Fuzz(func(t *testing.T, request string) {
		c := dial(t, address)
		c.Write([]byte(request))
		c.CloseWrite()
		for {
			response, err := http.ReadResponse(c.r, nil)
			if err != nil {
				break
			}
			if response.StatusCode < 400 {
				t.Errorf("%q: %s", request, response.Status)
			}
			response.Body.Close()
		}
		for _, a := range outside.taken() {
			if a.String() != "8.8.8.8:443" && a.String() != "8.8.8.8:80" {
				t.Errorf("%q reached %s", request, a)
			}
		}
	})
}
