package egress_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"pi-mcp/cage/egress"
)

// names is a resolver. What it does not have does not exist.
type names map[string][]string

func (n names) LookupNetIP(_ context.Context, _, host string) (found []netip.Addr, err error) {
	for _, addr := range n[host] {
		found = append(found, netip.MustParseAddr(addr))
	}
	if found == nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, Server: "198.51.100.53:53", IsNotFound: true}
	}
	return found, nil
}

func parse(t testing.TB, words ...string) egress.Policy {
	t.Helper()
	p, err := egress.Parse(words)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func proxy(t testing.TB, cfg egress.Config) *egress.Proxy {
	t.Helper()
	p, err := egress.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// serve starts a proxy on a loopback address and returns it.
func serve(t testing.TB, p *egress.Proxy) string {
	t.Helper()
	l := listen(t)
	served := make(chan error)
	go func() { served <- p.Serve(l) }()
	t.Cleanup(func() {
		p.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// origin runs a server outside, which handles each connection in turn, and returns
// its address.
func origin(t testing.TB, handle func(net.Conn)) netip.AddrPort {
	t.Helper()
	l := listen(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				handle(c)
			}()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	return netip.MustParseAddrPort(l.Addr().String())
}

func echo(c net.Conn) { io.Copy(c, c) }

// web is an origin that speaks HTTP.
func web(t testing.TB, handle http.HandlerFunc) netip.AddrPort {
	t.Helper()
	l := listen(t)
	s := &http.Server{Handler: handle}
	ended := make(chan struct{})
	go func() {
		s.Serve(l)
		close(ended)
	}()
	t.Cleanup(func() {
		s.Close()
		<-ended
	})
	return netip.MustParseAddrPort(l.Addr().String())
}

// A client is one connection to a proxy.
type client struct {
	*net.TCPConn
	r *bufio.Reader
}

func dial(t testing.TB, address string) client {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return client{c.(*net.TCPConn), bufio.NewReader(c)}
}

// ask sends a request as it is written and returns the answer with its body.
func (c client) ask(t testing.TB, request string) (*http.Response, string) {
	t.Helper()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	response, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%.80q: %v", request, err)
	}
	if method == "CONNECT" && response.StatusCode == http.StatusOK {
		return response, ""
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

// connect asks for a tunnel.
func (c client) connect(t testing.TB, target string) (status int, body string) {
	t.Helper()
	response, body := c.ask(t, fmt.Sprintf("CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target))
	return response.StatusCode, body
}

// get asks for a page without a tunnel.
func (c client) get(t testing.TB, url string) (status int, body string) {
	t.Helper()
	response, body := c.ask(t, "GET "+url+" HTTP/1.1\r\nHost: ignored.test\r\n\r\n")
	return response.StatusCode, body
}

// echoes checks that what is on the other side of c repeats it.
func (c client) echoes(t testing.TB, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c.r, got); err != nil || string(got) != text {
		t.Fatalf("echo = %q, %v", got, err)
	}
}
