package egress_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pi-mcp/cage/egress"
)

// site is a web server called site.test that answers with what it received.
func site(t *testing.T) (cfg egress.Config, host string) {
	t.Helper()
	at := web(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s host=%s headers=%v body=%s", r.Method, r.RequestURI, r.Host, slices.Sorted(maps.Keys(r.Header)), body)
	})
	host = fmt.Sprintf("site.test:%d", at.Port())
	return egress.Config{
		Policy:   parse(t, host),
		Allow:    []netip.AddrPort{at},
		Resolver: names{"site.test": {"127.0.0.1"}},
	}, host
}

func TestForward(t *testing.T) {
	cfg, host := site(t)
	p := proxy(t, cfg)
	response, body := dial(t, serve(t, p)).ask(t, "POST http://SITE.test:"+host[10:]+"/a%2fb;c?x=1;y=%zz HTTP/1.1\r\nHost: evil.test\r\n"+
		"Proxy-Authorization: Basic c2VjcmV0\r\nProxy-Connection: keep-alive\r\nConnection: X-Mine, Keep-Alive\r\nKeep-Alive: 5\r\nX-Mine: 1\r\n"+
		"TE: gzip\r\nUpgrade: websocket\r\nAuthorization: Bearer x\r\nContent-Length: 4\r\n\r\nbody")
	want := "POST /a%2fb;c?x=1;y=%zz host=" + host + " headers=[Authorization Connection Content-Length] body=body"
	if response.StatusCode != http.StatusOK || body != want {
		t.Errorf("%s %s\nwant %s", response.Status, body, want)
	}
	if c := p.Counts(); c.Connections != 1 || c.BytesOut == 0 || c.BytesIn < int64(len(want)) {
		t.Errorf("%+v", c)
	}
}

// TestForwardAnswer: the headers of one hop stay there in the answer too.
func TestForwardAnswer(t *testing.T) {
	at := origin(t, func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\nProxy-Authenticate: Basic\r\nX-End: 2\r\nContent-Length: 4\r\n\r\nbody")
	})
	address := serve(t, proxy(t, egress.Config{Policy: egress.Internet, Allow: []netip.AddrPort{at}}))
	response, body := dial(t, address).ask(t, "GET http://"+at.String()+"/ HTTP/1.1\r\nHost: x\r\n\r\n")
	h := response.Header
	if body != "body" || h.Get("X-End") != "2" || h.Get("X-Hop")+h.Get("Proxy-Authenticate") != "" {
		t.Errorf("%s %s %v", response.Status, body, h)
	}
}

// TestForwardAnew: on one connection each request is checked, and a refusal says why in
// its status line and ends it.
func TestForwardAnew(t *testing.T) {
	cfg, host := site(t)
	p := proxy(t, cfg)
	address := serve(t, p)
	for _, method := range []string{"GET", "HEAD"} {
		c := dial(t, address)
		for range 2 {
			if status, body := c.get(t, "http://"+host+"/ok"); status != http.StatusOK || !strings.HasPrefix(body, "GET /ok host="+host) {
				t.Fatalf("%d %s", status, body)
			}
		}
		io.WriteString(c, method+" http://other.test/ HTTP/1.1\r\nHost: ignored.test\r\n\r\n")
		said, err := io.ReadAll(c.r)
		const why = "egress to other.test:80 is not allowed by this agent's network policy"
		if text := string(said); err != nil || !strings.HasPrefix(text, "HTTP/1.1 403 "+why+"\r\n") ||
			strings.Contains(text, "\r\n\r\n"+why+": it allows "+host) != (method == "GET") {
			t.Errorf("%s: %s, %v", method, text, err)
		}
	}
	if got := p.Counts(); got.Connections != 4 || got.Refused != 2 {
		t.Errorf("%+v", got)
	}
	c := dial(t, address)
	c.get(t, "http://"+host+"/ok")
	if status, body := c.connect(t, host); status != http.StatusOK {
		t.Errorf("a tunnel after a request: %d %s", status, body)
	}
}

// TestForwardUpgrade: a server that changes the protocol unasked gets no tunnel.
func TestForwardUpgrade(t *testing.T) {
	for _, header := range []string{"", "Upgrade: websocket\r\nConnection: Upgrade\r\n"} {
		at := web(t, func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n"+header+"\r\n")
			io.Copy(io.Discard, c)
		})
		address := serve(t, proxy(t, egress.Config{Policy: egress.Internet, Allow: []netip.AddrPort{at}}))
		if status, body := dial(t, address).get(t, "http://"+at.String()+"/"); status != http.StatusBadGateway || !strings.Contains(body, "CONNECT is needed") {
			t.Errorf("%d %s", status, body)
		}
	}
}

// TestForwardStream: an event arrives before the next is sent, also when the length
// of all is known.
func TestForwardStream(t *testing.T) {
	next := make(chan string)
	at := web(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "8")
		for event := range next {
			io.WriteString(w, event)
			http.NewResponseController(w).Flush()
		}
	})
	address := serve(t, proxy(t, egress.Config{Policy: egress.Internet, Allow: []netip.AddrPort{at}}))
	c := dial(t, address)
	fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: x\r\n\r\n", at)
	next <- "one\n"
	response, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	for _, event := range []string{"one\n", "two\n"} {
		if event != "one\n" {
			next <- event
		}
		if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != event {
			t.Fatalf("%q, %v", got, err)
		}
	}
	close(next)
	if rest, err := io.ReadAll(response.Body); err != nil || len(rest) != 0 {
		t.Errorf("%q, %v", rest, err)
	}
}
