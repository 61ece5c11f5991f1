package egress_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"pi-mcp/cage/egress"
)

// tunnel opens one to at through a proxy with the given idle time.
func tunnel(t testing.TB, at netip.AddrPort, idle time.Duration) (client, *egress.Proxy) {
	t.Helper()
	p := proxy(t, egress.Config{Policy: egress.Internet, Allow: []netip.AddrPort{at}, IdleTimeout: idle})
	c := dial(t, serve(t, p))
	if status, body := c.connect(t, at.String()); status != http.StatusOK {
		t.Fatal(status, body)
	}
	return c, p
}

// TestHalfCloseOut: the agent ends its direction, and the answer to all it sent still
// comes.
func TestHalfCloseOut(t *testing.T) {
	at := origin(t, func(c net.Conn) {
		all, _ := io.ReadAll(c)
		c.Write(bytes.ToUpper(all))
	})
	c, _ := tunnel(t, at, 0)
	c.Write([]byte("question"))
	c.CloseWrite()
	if answer, err := io.ReadAll(c.r); err != nil || string(answer) != "QUESTION" {
		t.Errorf("%q, %v", answer, err)
	}
}

// TestHalfCloseIn: the other side ends its direction, and still hears all.
func TestHalfCloseIn(t *testing.T) {
	heard := make(chan []byte, 1)
	at := origin(t, func(c net.Conn) {
		c.Write([]byte("bye"))
		c.(*net.TCPConn).CloseWrite()
		all, _ := io.ReadAll(c)
		heard <- all
	})
	c, _ := tunnel(t, at, 0)
	if got, err := io.ReadAll(c.r); err != nil || string(got) != "bye" {
		t.Fatalf("%q, %v", got, err)
	}
	c.Write([]byte("still here"))
	c.Close()
	if got := <-heard; string(got) != "still here" {
		t.Errorf("%q", got)
	}
}

// TestReset: when one side breaks off, so does the other.
func TestReset(t *testing.T) {
	at := origin(t, func(c net.Conn) {
		io.ReadFull(c, make([]byte, 1))
		c.(*net.TCPConn).SetLinger(0)
	})
	c, _ := tunnel(t, at, 0)
	c.Write([]byte("x"))
	if _, err := c.r.ReadByte(); err == nil {
		t.Error("the tunnel is still there")
	}
}

// TestLarge: much more than a piece arrives whole in both directions at once.
func TestLarge(t *testing.T) {
	c, p := tunnel(t, origin(t, echo), 0)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<18)
	go func() {
		c.Write(sent)
		c.CloseWrite()
	}()
	if got, err := io.ReadAll(c.r); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d, %v", len(got), len(sent), err)
	}
	p.Close()
	if got := p.Counts(); got.BytesIn != int64(len(sent)) || got.BytesOut != int64(len(sent)) {
		t.Errorf("%+v", got)
	}
}

// TestIdle: a tunnel in which nothing moves is ended, on both sides; one in which
// something does outlives it, in whichever direction that is.
func TestIdle(t *testing.T) {
	const idle = 200 * time.Millisecond
	at := origin(t, echo)
	quiet, _ := tunnel(t, at, idle)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		quiet.r.ReadByte()
	}()
	busy, _ := tunnel(t, at, idle)
	lasted := make(chan error)
	oneWay, _ := tunnel(t, origin(t, func(c net.Conn) { lasted <- trickle(c, ended) }), idle)
	go io.Copy(io.Discard, oneWay.r)
	for over := false; !over; {
		busy.echoes(t, "x")
		select {
		case <-ended:
			over = true
		default:
		}
	}
	busy.echoes(t, "alive")
	if err := <-lasted; err != nil {
		t.Errorf("one way: %v", err)
	}
}

// trickle writes a byte now and then, until the end or an error.
func trickle(c net.Conn, end <-chan struct{}) error {
	for {
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
		select {
		case <-end:
			return nil
		case <-time.After(time.Millisecond):
		}
	}
}

// TestStalled: a side that does not read cannot hold a tunnel for ever.
func TestStalled(t *testing.T) {
	over := make(chan error)
	at := origin(t, func(c net.Conn) {
		_, err := io.Copy(c, endless{})
		over <- err
	})
	tunnel(t, at, 100*time.Millisecond)
	if err := <-over; err == nil {
		t.Error("no error")
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// TestIdleForward: the same for plain HTTP, whichever side it is that stalls.
func TestIdleForward(t *testing.T) {
	over := make(chan struct{}, 2)
	at := web(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/endless" {
			io.Copy(w, endless{})
		} else {
			<-r.Context().Done()
		}
		over <- struct{}{}
	})
	p := proxy(t, egress.Config{Policy: egress.Internet, Allow: []netip.AddrPort{at}, IdleTimeout: 100 * time.Millisecond})
	address := serve(t, p)
	for _, path := range []string{"/silent", "/endless"} {
		c := dial(t, address)
		io.WriteString(c, "GET http://"+at.String()+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
		<-over
	}
}

// TestNextAddress: an address that fails or hangs does not keep a name from being
// reached by another, and what comes of it too late is closed.
func TestNextAddress(t *testing.T) {
	at := origin(t, echo)
	late, far := net.Pipe()
	p := proxy(t, egress.Config{Policy: egress.Internet, Resolver: names{"three.test": {"8.8.8.8", "8.8.4.4", "9.9.9.9"}}})
	p.Dial(func(ctx context.Context, a netip.AddrPort) (net.Conn, error) {
		switch a.Addr().String() {
		case "8.8.8.8":
			return nil, errors.New("unreachable")
		case "8.8.4.4":
			<-ctx.Done()
			return late, nil
		}
		return net.Dial("tcp", at.String())
	})
	c := dial(t, serve(t, p))
	if status, body := c.connect(t, "three.test:443"); status != http.StatusOK {
		t.Fatal(status, body)
	}
	c.echoes(t, "hello")
	if _, err := far.Read(make([]byte, 1)); err != io.EOF {
		t.Error(err)
	}
	p.Close()
	allGone()
}
