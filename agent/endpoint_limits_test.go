package agent_test

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"pi-mcp/agent"
)

// Many requests at once are all answered, up to the limit; beyond it the words say so.
func TestEndpointRequests(t *testing.T) {
	w, d := newDesk(t)
	door := w.door(w.run(host).AgentID)
	var wg sync.WaitGroup
	held := make(chan answer, 64)
	for range 64 {
		wg.Go(func() { held <- door.ask(t, stream, header("X-Hold", "yes")) })
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

// stream makes a request one for a stream.
func stream(r *http.Request) { r.Method, r.Body, r.ContentLength = http.MethodGet, http.NoBody, 0 }

// Calls beyond those whose answers may be in memory wait for the end of one, but not
// for ever. Streams do not.
func TestEndpointCalls(t *testing.T) {
	w, d := newDesk(t)
	id := w.run(host).AgentID
	door := w.door(id)
	got := make(chan answer, 17)
	hold := func() { got <- door.ask(t, header("X-Hold", "yes")) }
	for range 16 {
		go hold()
	}
	for range 16 {
		<-d.holding
	}
	agent.SetQueue(w.sup, id, time.Millisecond)
	if got := door.ask(t); got.status != 503 || !strings.Contains(got.body, "too many requests") {
		t.Errorf("the 17th: %+v", got)
	}
	if got := door.ask(t, stream); got.status != 200 {
		t.Errorf("a stream beside them: %+v", got)
	}
	agent.SetQueue(w.sup, id, time.Hour)
	go hold()
	eventually(t, func() bool { return calls("admit") == 1 }, func() string { return "the 17th does not wait" })
	close(d.letGo)
	for range 17 {
		if got := <-got; got.status != 200 {
			t.Errorf("one of the 17: %+v", got)
		}
	}
}

// calls counts the goroutines that are in a method of an endpoint.
func calls(method string) (n int) {
	for _, g := range goroutines() {
		if strings.Contains(g, "agent.(*endpoint)."+method+"(") {
			n++
		}
	}
	return n
}

// An answer that nobody reads is given up, and its slot is free again. One that is
// read comes whole.
func TestEndpointUnread(t *testing.T) {
	w, d := newDesk(t)
	id := w.run(host).AgentID
	agent.SetPatience(w.sup, id, 100*time.Millisecond)
	door := w.door(id)
	const size = 64 << 20 // more than the kernel takes
	large := fmt.Sprintf("X-Answer: %d\r\n", size)
	for range 16 {
		door.dial(t, door.request(large))
	}
	for range 16 {
		if err := <-d.cut; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("an answer that is not read ends with %v", err)
		}
	}
	agent.SetPatience(w.sup, id, time.Minute)
	if got := door.ask(t, header("X-Answer", fmt.Sprint(size))); got.err != nil || len(got.body) != size {
		t.Errorf("the control: %d bytes, %v", len(got.body), got.err)
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
