package egress_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"pi-mcp/cage/egress"
)

// goroutines returns those that run this package or the servers and transports in
// it, but not the tests.
func goroutines() (mine []string) {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for g := range strings.SplitSeq(string(stacks), "\n\n") {
		if strings.Contains(g, "pi-mcp/cage/egress.") || strings.Contains(g, "net/http.(*conn)") || strings.Contains(g, "net/http.(*persistConn)") {
			mine = append(mine, g)
		}
	}
	return mine
}

// allGone returns when there are none. Those of a closed proxy have nothing left to
// wait for; if one has, the time limit of go test shows what.
func allGone() {
	for len(goroutines()) > 0 {
		runtime.Gosched()
	}
}

// TestClose ends a proxy in the middle of everything it can be doing.
func TestClose(t *testing.T) {
	echoes := origin(t, echo)
	silent := origin(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	p := proxy(t, egress.Config{
		Policy: egress.Internet, Allow: []netip.AddrPort{echoes, silent}, Resolver: names{"hang.test": {"8.8.8.8"}},
	})
	dialing := make(chan struct{})
	p.Dial(func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
		if a.Addr().IsLoopback() {
			return net.Dial("tcp", a.String())
		}
		close(dialing)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	address := serve(t, p)
	busy, hanging, waiting, half, idle := dial(t, address), dial(t, address), dial(t, address), dial(t, address), dial(t, address)
	busy.connect(t, echoes.String())
	busy.echoes(t, "x")
	go io.Copy(busy, endless{})
	half.connect(t, silent.String())
	half.CloseWrite()
	io.WriteString(waiting, "POST http://"+silent.String()+"/ HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf")
	io.WriteString(idle, "GET http://unfinished")
	io.WriteString(hanging, "CONNECT hang.test:443 HTTP/1.1\r\n\r\n")
	<-dialing
	for p.Counts().Connections < 3 {
		runtime.Gosched()
	}
	if len(goroutines()) == 0 {
		t.Fatal("control: none to be seen before")
	}
	p.Close()
	p.Close()
	allGone()
	if c, err := net.Dial("tcp", address); err == nil {
		c.Close()
		t.Error("still listening")
	}
	io.Copy(io.Discard, half.r) // it has ended
	if err := p.Serve(listen(t)); err != nil {
		t.Errorf("Serve after Close: %v", err)
	}
}

// TestMaxConns: the limit is told, and a connection that ends makes room.
func TestMaxConns(t *testing.T) {
	cfg, target := outside(t)
	cfg.MaxConns = 3
	address := serve(t, proxy(t, cfg))
	var open []client
	for range cfg.MaxConns {
		c := dial(t, address)
		if status, body := c.connect(t, target); status != http.StatusOK {
			t.Fatal(status, body)
		}
		open = append(open, c)
	}
	if status, body := dial(t, address).connect(t, target); status != http.StatusServiceUnavailable || !strings.Contains(body, "3 connections open") {
		t.Errorf("%d %s", status, body)
	}
	open[0].Close()
	for {
		status, _ := dial(t, address).connect(t, target)
		if status == http.StatusOK {
			break
		}
	}
	open[1].echoes(t, "undisturbed")
}

// TestManyConns: of a thousand at once each gets its turn or an answer.
func TestManyConns(t *testing.T) {
	cfg, target := outside(t)
	cfg.MaxConns = 20
	address := serve(t, proxy(t, cfg))
	answers := make(chan string)
	for range 1000 {
		go func() { answers <- answer(address, "CONNECT "+target+" HTTP/1.1\r\n\r\n") }()
	}
	seen := map[string]int{}
	for range 1000 {
		seen[<-answers]++
	}
	ok, busy := seen["HTTP/1.1 200"], seen["HTTP/1.1 503"]
	if ok < cfg.MaxConns || ok+busy != 1000 {
		t.Errorf("%v", seen)
	}
}

// answer returns the beginning of what a request is answered, or the error.
func answer(address, request string) string {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	begin := make([]byte, len("HTTP/1.1 200"))
	io.WriteString(c, request)
	if _, err := io.ReadFull(c, begin); err != nil {
		return err.Error()
	}
	return string(begin)
}

// TestSlowRequest: a request that does not arrive is given up, and holds nobody else.
func TestSlowRequest(t *testing.T) {
	cfg, target := outside(t)
	cfg.HeaderTimeout = 50 * time.Millisecond
	address := serve(t, proxy(t, cfg))
	established := dial(t, address)
	established.connect(t, target)
	for _, start := range []string{"", "CONN", "CONNECT " + target + " HTTP/1.1\r\n", "GET http://x/ HTTP/1.1\r\nHost: x\r\nX-Slow: "} {
		c := dial(t, address)
		io.WriteString(c, start)
		io.Copy(io.Discard, c.r) // returns when the proxy has closed
	}
	established.echoes(t, "the limit is not for tunnels")
}

// TestLongHeader: a header has a size limit, one below it passes.
func TestLongHeader(t *testing.T) {
	cfg, target := outside(t)
	address := serve(t, proxy(t, cfg))
	for size, want := range map[int]int{20 << 10: http.StatusOK, 64 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		request := fmt.Sprintf("CONNECT %s HTTP/1.1\r\nX-Long: %s\r\n\r\n", target, strings.Repeat("x", size))
		if response, body := dial(t, address).ask(t, request); response.StatusCode != want {
			t.Errorf("%d bytes: %s %s", size, response.Status, body)
		}
	}
}

// TestLog: refusals are logged, and an agent that is refused for ever does not fill
// the log.
func TestLog(t *testing.T) {
	cfg, _ := outside(t)
	var log bytes.Buffer
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	p := proxy(t, cfg)
	address := serve(t, p)
	for range 150 {
		dial(t, address).get(t, "http://refused.test/")
	}
	p.Close()
	if n := strings.Count(log.String(), `msg="egress refused" to=refused.test:80 why="it allows`); n != 100 {
		t.Errorf("%d lines:\n%.1000s", n, log.String())
	}
	if got := p.Counts().Refused; got != 150 {
		t.Errorf("%d refused", got)
	}
}
