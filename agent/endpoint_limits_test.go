package agent_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// Many calls at once are all answered, up to the limit; beyond it the words say so.
func TestEndpointRequests(t *testing.T) {
	w, d := newDesk(t)
	door := w.door(w.run(host).AgentID)
	var wg sync.WaitGroup
	held := make(chan answer, 64)
	for range 64 {
		wg.Go(func() { held <- door.ask(t, header("X-Hold", "yes")) })
	}
	for range 64 {
		<-d.holding
	}
	if got := door.ask(t); got.status != 503 || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "too many requests") {
		t.Errorf("the 65th: %+v", got)
	}
	if got := door.ask(t, header("Authorization", "Bearer x")); got.status != 401 {
		t.Errorf("a stranger learns of the limit: %+v", got)
	}
	close(d.letGo)
	wg.Wait()
	for range 64 {
		if got := <-held; got.status != 200 {
			t.Errorf("one of the 64: %+v", got)
		}
	}
	if got := door.ask(t); got.status != 200 {
		t.Errorf("after them: %+v", got)
	}
}

// Heads and bodies are bounded.
func TestEndpointSizes(t *testing.T) {
	w, _ := newDesk(t)
	door := w.door(w.run(host).AgentID)
	body := func(size int) func(*http.Request) {
		return func(r *http.Request) {
			r.Body, r.ContentLength = http.NoBody, 0
			b, err := http.NewRequest("POST", "http://x", strings.NewReader(strings.Repeat("x", size)))
			must(t, err)
			r.Body, r.ContentLength = b.Body, b.ContentLength
		}
	}
	for name, test := range map[string]struct {
		edit func(*http.Request)
		want int
	}{
		"a large body":     {body(4 << 20), 200},
		"too large a body": {body(4<<20 + 1), 413},
		"a large head":     {header("X-Large", strings.Repeat("x", 30<<10)), 200},
		"too large a head": {header("X-Large", strings.Repeat("x", 64<<10)), 431},
	} {
		if got := door.ask(t, test.edit); got.status != test.want {
			t.Errorf("%s: %d %v", name, got.status, got.err)
		}
	}
}

// Connections beyond the limit wait for the end of one.
func TestEndpointConnections(t *testing.T) {
	w, _ := newDesk(t)
	door := w.door(w.run(host).AgentID)
	var conns []net.Conn
	for range 128 {
		c := door.dial(t, door.request(""))
		status(t, c)
		conns = append(conns, c)
	}
	last := door.dial(t, door.request(""))
	got := make(chan string, 1)
	go func() {
		buf := make([]byte, 12)
		last.Read(buf)
		got <- string(buf)
	}()
	for _, c := range conns { // the server has had the time for one more
		fmt.Fprint(c, door.request(""))
		c.Read(make([]byte, 4096))
	}
	select {
	case line := <-got:
		t.Errorf("beyond the limit: %s", line)
	default:
	}
	conns[0].Close()
	if line := <-got; line != "HTTP/1.1 200" {
		t.Errorf("after the end of one: %q", line)
	}
}
