package agent_test

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pi-mcp/agent"
	"pi-mcp/artifacts"
)

// host is a run whose endpoint this process can reach.
var host = agent.RunRequest{Network: "host"}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// Only the agent's own token is taken, only under the endpoint's own address, only
// for its one path. F48: Host and Origin of others are refused.
func TestEndpointChecks(t *testing.T) {
	w, _ := newDesk(t)
	a, b := w.run(host), w.run(host)
	d, other := w.door(a.AgentID), w.door(b.AgentID)
	_, port, err := net.SplitHostPort(d.address())
	must(t, err)
	hostIs := func(h string) func(*http.Request) { return func(r *http.Request) { r.Host = h } }
	path := func(p string) func(*http.Request) { return func(r *http.Request) { r.URL.Path = p } }
	bearer := func(token string) func(*http.Request) { return header("Authorization", "Bearer "+token) }
	for name, test := range map[string]struct {
		edit func(*http.Request)
		want int
	}{
		"control":             {func(*http.Request) {}, 200},
		"no token":            {func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		"empty token":         {bearer(""), 401},
		"wrong token":         {bearer(strings.Repeat("A", len(d.token))), 401},
		"half a token":        {bearer(d.token[:len(d.token)/2]), 401},
		"more than the token": {bearer(d.token + "A"), 401},
		"other agent's token": {bearer(other.token), 401},
		"no scheme":           {header("Authorization", d.token), 401},
		"other scheme":        {header("Authorization", "Basic "+d.token), 401},
		"scheme in capitals":  {header("Authorization", "BEARER "+d.token), 200},
		"evil host":           {hostIs("evil.example"), 403},
		"evil host and port":  {hostIs("evil.example:" + port), 403},
		"other port":          {hostIs("127.0.0.1:1"), 403},
		"no port":             {hostIs("127.0.0.1"), 403},
		"by name":             {hostIs("localhost:" + port), 200},
		"evil origin":         {header("Origin", "http://evil.example"), 403},
		"no origin":           {header("Origin", "null"), 403},
		"https origin":        {header("Origin", "https://"+d.address()), 403},
		"origin of a name":    {header("Origin", "http://localhost:"+port), 403}, // Host has the number
		"own origin":          {header("Origin", "http://"+d.address()), 200},
		"other path":          {path("/"), 404},
		"path below":          {path("/mcp/x"), 404},
		"metadata of a login": {path("/.well-known/oauth-protected-resource"), 404},
	} {
		got := d.ask(t, test.edit)
		if got.status != test.want || got.err != nil {
			t.Errorf("%s: %d %q %v", name, got.status, got.body, got.err)
		}
		if reached := strings.HasPrefix(got.body, "hello "+a.AgentID+" of default"); reached != (test.want == 200) {
			t.Errorf("%s: the answer is %q", name, got.body)
		}
		if wants := got.header.Get("WWW-Authenticate"); (wants == "Bearer") != (test.want == 401) {
			t.Errorf("%s: WWW-Authenticate is %q", name, wants)
		}
		if test.want == 401 && (!strings.Contains(got.body, "mcp.json") || strings.Count(got.body, "\n") != 1) {
			t.Errorf("%s: the words are %q", name, got.body)
		}
	}
	if got := other.ask(t); got.status != 200 || !strings.HasPrefix(got.body, "hello "+b.AgentID) {
		t.Errorf("the control: the other token at the other endpoint: %+v", got)
	}
}

// The token is worthless from the end of the process on, however it ends, and each
// start has its own.
func TestEndpointToken(t *testing.T) {
	w, d := newDesk(t)
	for name, end := range map[string]func(id string){
		"rip": func(id string) { _, err := w.sup.Rip(t.Context(), w.who, id); must(t, err) },
		"exit": func(id string) {
			w.send(id, act(do("exit", 3)))
			w.untilState(id, agent.Exited)
		},
		"kill": func(id string) {
			w.send(id, act(do("signal", "KILL")))
			w.untilState(id, agent.Exited)
		},
	} {
		a := w.run(host)
		first := w.door(a.AgentID)
		if i, err := os.Stat(w.mcpJSON(a.AgentID)); err != nil || i.Mode().Perm() != 0o600 || len(first.token) != 43 {
			t.Errorf("%s: mcp.json is %v (%v), the token %d characters", name, i.Mode(), err, len(first.token))
		}
		if got := first.ask(t); got.status != 200 {
			t.Errorf("%s: before: %+v", name, got)
		}
		end(a.AgentID)
		if got := first.ask(t); !got.refused() || d.ends(a.AgentID) != 1 {
			t.Errorf("%s: after: %+v, %d ends", name, got, d.ends(a.AgentID))
		}
		_, err := w.sup.Resurrect(t.Context(), w.who, a.AgentID, nil)
		must(t, err)
		second := w.door(a.AgentID)
		if got := second.ask(t, header("Authorization", "Bearer "+first.token)); got.status != 401 {
			t.Errorf("%s: the old token at the new endpoint: %+v", name, got)
		}
		if got := second.ask(t); got.status != 200 {
			t.Errorf("%s: the new token: %+v", name, got)
		}
		w.remove(a.AgentID)
		if got := second.ask(t); !got.refused() || d.ends(a.AgentID) != 2 {
			t.Errorf("%s: after the removal: %+v, %d ends", name, got, d.ends(a.AgentID))
		}
	}
	atRest(t)
}

// The token is revoked when a stop begins: what the stop does not know of cannot be
// started any more while pi takes its time to end.
func TestEndpointDuringStop(t *testing.T) {
	w, d := newDesk(t, func(c *agent.Config) { c.Grace, c.CloseGrace = time.Hour, time.Millisecond })
	w.script("deaf", map[string]any{"eof": []any{do("ignore_eof", true)}})
	a := w.run(agent.RunRequest{Model: "deaf", Network: "host"})
	door := w.door(a.AgentID)
	go w.sup.Rip(t.Context(), w.who, a.AgentID) // ends with the world
	eventually(t, func() bool { return door.ask(t).refused() }, func() string { return "the token is still good" })
	if i := w.info(a.AgentID); i.State != agent.Active || i.PID == nil {
		t.Errorf("the control: it is %s", i.State)
	}
	w.sup.Close()
	if n := d.ends(a.AgentID); n != 1 {
		t.Errorf("%d ends", n)
	}
	atRest(t)
}

// Whatever the agent's connections are doing, the end comes, and nothing is left.
func TestEndpointEnds(t *testing.T) {
	for name, end := range map[string]func(w *world, id string){
		"rip":      func(w *world, id string) { _, err := w.sup.Rip(t.Context(), w.who, id); must(t, err) },
		"remove":   func(w *world, id string) { w.remove(id) },
		"shutdown": func(w *world, _ string) { w.sup.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			w, d := newDesk(t)
			a := w.run(host)
			door := w.door(a.AgentID)
			var conns []net.Conn
			for _, text := range []string{
				"", "POST /mcp HTTP/1.1\r\nHost: " + door.address() + "\r\nX-Slow: ", // the head never ends
				strings.Replace(door.request(""), "Content-Length: 2", "Content-Length: 1000", 1), // nor the body
				door.request("X-Hold: yes\r\n"),
			} {
				conns = append(conns, door.dial(t, text))
			}
			idle := door.dial(t, door.request(""))
			if got := status(t, idle); !strings.Contains(got, "200") {
				t.Errorf("the control: %s", got)
			}
			if id := <-d.holding; id != a.AgentID {
				t.Errorf("%s holds", id)
			}
			end(w, a.AgentID)
			for i, c := range append(conns, idle) {
				buf := make([]byte, 4096)
				n, err := c.Read(buf)
				for err == nil {
					n, err = c.Read(buf)
				}
				if ne, ok := err.(net.Error); ok && ne.Timeout() {
					t.Errorf("connection %d: %d bytes, %v", i, n, err)
				}
			}
			if n := d.ends(a.AgentID); n != 1 {
				t.Errorf("%d ends", n)
			}
			atRest(t)
		})
	}
}

// A start that fails leaves no listener and no token, however far it came.
func TestEndpointOfFailedStart(t *testing.T) {
	w, d := newDesk(t)
	w.script("short", map[string]any{"start": []any{do("exit", 3)}})
	if _, err := w.sup.Run(t.Context(), w.who, agent.RunRequest{Model: "short", Network: "host"}); err == nil {
		t.Error("a pi that exits at once starts")
	}
	if len(d.made) != 1 || len(d.ended) != 1 {
		t.Errorf("%d endpoints were served, %d ended", len(d.made), len(d.ended))
	}
	a := w.run(host)
	_, err := w.sup.Rip(t.Context(), w.who, a.AgentID)
	must(t, err)
	for _, log := range []string{w.files.Paths(a.AgentID).StdoutLog, filepath.Join(w.dir, "host", "models.json")} {
		must(t, os.RemoveAll(log))
		must(t, os.Mkdir(log, 0o700)) // cannot be opened, cannot be read
		if _, err := w.sup.Resurrect(t.Context(), w.who, a.AgentID, nil); err == nil {
			t.Errorf("it starts without %s", log)
		}
		must(t, os.Remove(log))
		atRest(t)
	}
	if len(d.made) != 2 {
		t.Errorf("%d endpoints were served", len(d.made))
	}
	_, err = w.sup.Resurrect(t.Context(), w.who, a.AgentID, nil)
	must(t, err) // the control
	if got := w.door(a.AgentID).ask(t); got.status != 200 {
		t.Errorf("the control: %+v", got)
	}
	if listening(t) != 1 {
		t.Errorf("the control: %d sockets listen", listening(t))
	}
}

// In a cage with a network of its own the endpoint is at a fixed address, which is
// nowhere on the host. Another agent's token is worth nothing there.
func TestEndpointInCage(t *testing.T) {
	w, d := newDesk(t)
	a, b := w.run(agent.RunRequest{}), w.run(agent.RunRequest{})
	mine, other := w.door(a.AgentID), w.door(b.AgentID)
	if mine.url != "http://127.0.0.1:17017/mcp" || other.url != mine.url || other.token == mine.token {
		t.Errorf("the urls are %s and %s", mine.url, other.url)
	}
	if got := w.inCage(a.AgentID, mine.token, "mine"); !strings.Contains(got, "200 OK") || !strings.Contains(got, "hello "+a.AgentID+" of default") {
		t.Errorf("in the cage: %s", got)
	}
	if got := w.inCage(a.AgentID, other.token, "other"); !strings.Contains(got, "401 Unauthorized") {
		t.Errorf("with the other's token: %s", got)
	}
	if got := w.inCage(b.AgentID, other.token, "control"); !strings.Contains(got, "hello "+b.AgentID) {
		t.Errorf("the control: %s", got)
	}
	if got := mine.ask(t); got.err == nil && strings.Contains(got.body, "hello") {
		t.Errorf("on the host: %+v", got)
	}
	for _, id := range []string{a.AgentID, b.AgentID} {
		w.remove(id)
		if n := d.ends(id); n != 1 {
			t.Errorf("%d ends", n)
		}
	}
	atRest(t)
}

// It answers before pi has answered the handshake, and as long as the process lives.
func TestEndpointWhileStarting(t *testing.T) {
	w, _ := newDesk(t)
	w.script("early", map[string]any{"start": []any{
		do("spawn", knock(ownToken, "early")), do("wait_file", "/tmp/early"),
	}})
	a := w.run(agent.RunRequest{Model: "early"})
	got, err := os.ReadFile(filepath.Join(w.files.Paths(a.AgentID).Tmp, "early"))
	must(t, err)
	if !strings.Contains(string(got), "hello "+a.AgentID) {
		t.Errorf("before the handshake: %s", got)
	}
	for n := range 3 {
		if got := w.inCage(a.AgentID, ownToken, fmt.Sprint("turn", n)); !strings.Contains(got, "hello "+a.AgentID) {
			t.Errorf("turn %d: %s", n, got)
		}
	}
}

// Without ChildMCP, or without anything to serve, there is no endpoint.
func TestNoEndpoint(t *testing.T) {
	silent, served := newDesk(t, func(c *agent.Config) { c.ChildMCP = true })
	silent.sup.Serve(nil)
	off := newWorld(t)
	off.sup.Serve(served.endpoint)
	for name, w := range map[string]*world{"nothing to serve": silent, "turned off": off} {
		a := w.run(agent.RunRequest{})
		if _, err := os.Stat(w.mcpJSON(a.AgentID)); !os.IsNotExist(err) {
			t.Errorf("%s: mcp.json: %v", name, err)
		}
		if got := w.inCage(a.AgentID, "x", "out"); !strings.Contains(got, "cannot connect") {
			t.Errorf("%s: in the cage: %s", name, got)
		}
		w.run(host)
		if n := listening(t); n != 0 {
			t.Errorf("%s: %d sockets listen", name, n)
		}
		w.sup.Close()
	}
	if len(served.made) > 0 {
		t.Errorf("endpoints of %v were served", served.made)
	}
}

// The token is in mcp.json and nowhere else that the server writes.
func TestEndpointTokenIsNowhereElse(t *testing.T) {
	log := new(buffer)
	w, _ := newDesk(t, func(c *agent.Config) {
		c.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	a := w.run(agent.RunRequest{})
	token := w.door(a.AgentID).token
	if got := w.inCage(a.AgentID, ownToken, "out"); !strings.Contains(got, "hello") {
		t.Errorf("the control: %s", got)
	}
	w.inCage(a.AgentID, "wrong", "refused")
	i := w.settled(a.AgentID, 2)
	res, err := w.sup.Grep(t.Context(), w.who, a.AgentID, artifacts.Stdout, []string{"-e", "."})
	must(t, err)
	if text := fmt.Sprintf("%+v %+v", i, res); strings.Contains(text, token) || !strings.Contains(text, "wrong") {
		t.Error("the token is in a result, or the message is not")
	}
	w.sup.Close()
	if strings.Contains(log.String(), token) {
		t.Errorf("the token is in the log:\n%s", log)
	}
	var found []string
	must(t, filepath.WalkDir(w.dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), token) {
			found = append(found, path)
		}
		return err
	}))
	if !slices.Equal(found, []string{w.mcpJSON(a.AgentID)}) {
		t.Errorf("the token is in %v", found)
	}
}

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
