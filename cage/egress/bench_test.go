package egress_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pi-mcp/cage/egress"
)

// relay is the least that a proxy could do: it joins each connection to one to at.
func relay(b *testing.B, at netip.AddrPort) string {
	return origin(b, func(c net.Conn) {
		up, err := net.Dial("tcp", at.String())
		if err != nil {
			return
		}
		defer up.Close()
		go func() {
			io.Copy(up, c)
			up.(*net.TCPConn).CloseWrite()
		}()
		io.Copy(c, up)
	}).String()
}

// open returns a proxy that reaches at.
func open(b *testing.B, at netip.AddrPort) string {
	return serve(b, proxy(b, egress.Config{Policy: egress.Internet, Allow: []netip.AddrPort{at}}))
}

// BenchmarkThroughput moves 1 GiB through a tunnel and, in the same run, through a
// bare relay. Target: 90 % of it at least.
func BenchmarkThroughput(b *testing.B) {
	const size = 1 << 30
	block := make([]byte, 256<<10)
	at := origin(b, func(c net.Conn) {
		for left := size; left > 0; left -= len(block) {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	})
	bare, proxied := relay(b, at), open(b, at)
	take := func(c client) time.Duration {
		begin := time.Now()
		into := make([]byte, 256<<10)
		total := 0
		for {
			n, err := c.r.Read(into)
			total += n
			if err != nil {
				break
			}
		}
		if total != size {
			b.Fatalf("%d bytes", total)
		}
		return time.Since(begin)
	}
	var direct, through time.Duration
	for b.Loop() {
		direct += take(dial(b, bare))
		c := dial(b, proxied)
		c.connect(b, at.String())
		through += take(c)
	}
	b.ReportMetric(float64(size)*float64(b.N)/direct.Seconds()/1e6, "relay-MB/s")
	b.ReportMetric(float64(size)*float64(b.N)/through.Seconds()/1e6, "proxy-MB/s")
	b.ReportMetric(100*direct.Seconds()/through.Seconds(), "%-of-relay")
}

// BenchmarkLatency is the median time that the proxy adds to a connection and to one
// byte there and back over it, beside a bare relay. Target: 1 ms at most.
func BenchmarkLatency(b *testing.B) {
	at := origin(b, echo)
	bare, proxied := relay(b, at), open(b, at)
	var direct, through []time.Duration
	for b.Loop() {
		begin := time.Now()
		c := dial(b, bare)
		c.echoes(b, "x")
		direct = append(direct, time.Since(begin))
		c.Close()

		begin = time.Now()
		c = dial(b, proxied)
		if status, body := c.connect(b, at.String()); status != http.StatusOK {
			b.Fatal(status, body)
		}
		c.echoes(b, "x")
		through = append(through, time.Since(begin))
		c.Close()
	}
	b.ReportMetric(micros(direct), "relay-µs")
	b.ReportMetric(micros(through), "proxy-µs")
	b.ReportMetric(micros(through)-micros(direct), "added-µs")
}

func micros(times []time.Duration) float64 {
	slices.Sort(times)
	return float64(times[len(times)/2].Nanoseconds()) / 1e3
}

// BenchmarkRefuse is a CONNECT that is refused, from connecting to the end.
func BenchmarkRefuse(b *testing.B) {
	address := serve(b, proxy(b, egress.Config{}))
	for b.Loop() {
		c := dial(b, address)
		if status, body := c.connect(b, "example.com:443"); status != http.StatusForbidden {
			b.Fatal(status, body)
		}
		c.Close()
	}
}

// BenchmarkNarrow narrows one list of 256 patterns to another.
func BenchmarkNarrow(b *testing.B) {
	var words []string
	for i := range 256 {
		words = append(words, fmt.Sprintf("host%d.example.com", i))
	}
	p := parse(b, strings.Join(words, ","))
	for b.Loop() {
		if _, err := egress.Narrow(p, p); err != nil {
			b.Fatal(err)
		}
	}
}
