package agent_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pi-mcp/agent"
)

// A desk is what answers agents' calls in these tests: with the caller's id, or when
// it is told to. It notes who it was made for and whose end has come.
type desk struct {
	mu    sync.Mutex // protects the fields below
	made  []agent.Caller
	ended []agent.Caller

	holding chan string   // takes the caller's id when a request to hold has arrived
	letGo   chan struct{} // closed when held requests may go on
	cut     chan error    // takes why an answer was not taken to its end
}

// newDesk makes a world whose agents have endpoints.
func newDesk(t testing.TB, settings ...func(*agent.Config)) (*world, *desk) {
	t.Helper()
	d := &desk{holding: make(chan string, 1000), letGo: make(chan struct{}), cut: make(chan error, 1000)}
	w := newWorld(t, append(settings, func(c *agent.Config) { c.ChildMCP = true })...)
	w.sup.Serve(d.endpoint)
	return w, d
}

func (d *desk) endpoint(who agent.Caller) (http.Handler, func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made = append(d.made, who)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.answer(w, r, who) }), func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.ended = append(d.ended, who)
	}
}

func (d *desk) answer(w http.ResponseWriter, r *http.Request, who agent.Caller) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	if r.Header.Get("X-Hold") != "" {
		d.holding <- who.Agent
		select {
		case <-r.Context().Done():
		case <-d.letGo:
		}
	}
	if size, err := strconv.Atoi(r.Header.Get("X-Answer")); err == nil {
		for range size >> 20 {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				d.cut <- err
				return
			}
		}
		return
	}
	fmt.Fprintf(w, "hello %s of %s, %d bytes", who.Agent, who.Group, n)
}

// ends counts how often the end of an agent's process came.
func (d *desk) ends(id string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, who := range d.ended {
		if who.Agent == id {
			n++
		}
	}
	return n
}

// A buffer is a log that may be written to from any goroutine.
type buffer struct {
	mu   sync.Mutex // protects text
	text strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// A door is what an agent's mcp.json says of its endpoint.
type door struct{ url, token string }

func (w *world) door(id string) door {
	w.t.Helper()
	var file struct {
		MCPServers map[string]struct {
			URL      string
			Headers  struct{ Authorization string }
			Exposure string
			Timeout  int64
		}
	}
	text, err := os.ReadFile(w.mcpJSON(id))
	must(w.t, err)
	must(w.t, json.Unmarshal(text, &file))
	s := file.MCPServers["pi-mcp"]
	token, ok := strings.CutPrefix(s.Headers.Authorization, "Bearer ")
	if !ok || len(file.MCPServers) != 1 || s.Exposure != "direct" || s.Timeout <= 3600 {
		w.t.Fatalf("mcp.json: %s", text)
	}
	return door{s.URL, token}
}

func (w *world) mcpJSON(id string) string { return filepath.Join(w.files.Paths(id).Pi, "mcp.json") }

func (d door) address() string {
	return strings.TrimSuffix(strings.TrimPrefix(d.url, "http://"), "/mcp")
}

// An answer is what came of a request.
type answer struct {
	status int
	header http.Header
	body   string
	err    error
}

// ask sends a request with the token, changed by edit.
func (d door) ask(t testing.TB, edit ...func(*http.Request)) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", d.url, strings.NewReader("{}"))
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+d.token)
	for _, e := range edit {
		e(req)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return answer{err: err}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, res.Header, string(body), err}
}

// refused reports whether an answer is that of an endpoint that is no more.
func (a answer) refused() bool { return a.err != nil || a.status == http.StatusUnauthorized }

// dial opens a connection and writes text.
func (d door) dial(t testing.TB, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", d.address())
	must(t, err)
	t.Cleanup(func() { c.Close() })
	_, err = io.WriteString(c, text)
	must(t, err)
	return c
}

// request is a request as it is on the wire, which holds if it has a hold.
func (d door) request(more string) string {
	return "POST /mcp HTTP/1.1\r\nHost: " + d.address() + "\r\nAuthorization: Bearer " + d.token + "\r\nContent-Length: 2\r\n" + more + "\r\n{}"
}

// status reads the status line of an answer.
func status(t testing.TB, c net.Conn) string {
	t.Helper()
	line, err := bufio.NewReader(c).ReadString('\n')
	must(t, err)
	return line
}

// atRest fails when something of an endpoint is left in this process: a goroutine or
// a listening socket.
func atRest(t testing.TB) {
	t.Helper()
	eventually(t, func() bool { return len(goroutines()) == 0 && listening(t) == 0 }, func() string {
		return fmt.Sprintf("%d sockets listen; left is\n%s", listening(t), strings.Join(goroutines(), "\n\n"))
	})
}

// goroutines are those that serve HTTP or belong to an endpoint.
func goroutines() (all []string) {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for _, g := range strings.Split(string(buf), "\n\n") {
		if strings.Contains(g, "net/http.(*conn)") || strings.Contains(g, "net/http.(*Server)") || strings.Contains(g, "agent.(*endpoint)") {
			all = append(all, g)
		}
	}
	return all
}

// listening counts the TCP sockets of this process that accept connections.
func listening(t testing.TB) (n int) {
	t.Helper()
	table, err := os.ReadFile("/proc/self/net/tcp")
	must(t, err)
	fds, err := filepath.Glob("/proc/self/fd/*")
	must(t, err)
	mine := map[string]bool{}
	for _, fd := range fds {
		target, _ := os.Readlink(fd)
		mine[target] = true
	}
	for _, line := range strings.Split(string(table), "\n") {
		if f := strings.Fields(line); len(f) > 9 && f[3] == "0A" && mine["socket:["+f[9]+"]"] {
			n++
		}
	}
	return n
}

// inCage has an agent with the fake pi send a request to its own endpoint, with bash
// alone, and returns the whole answer.
func (w *world) inCage(id, token, name string) string { return w.manyInCage(id, token, name, 1) }

// manyInCage is inCage for so many requests at once.
func (w *world) manyInCage(id, token, name string, n int) string {
	w.t.Helper()
	w.send(id, act(do("spawn", knock(token, name, n)), do("wait_file", "/tmp/"+name), do("turn", "done")))
	path := filepath.Join(w.files.Paths(id).Tmp, name)
	eventually(w.t, func() bool { _, err := os.Stat(path); return err == nil }, func() string { return path + " never came" })
	text, err := os.ReadFile(path)
	must(w.t, err)
	return string(text)
}

// ownToken stands for the token in the mcp.json of the cage, which the program there
// reads itself.
const ownToken = `"$(grep -o 'Bearer [^"]*' /pi-agent/mcp.json | cut -c8-)"`

// knock is a program that asks the endpoint of the cage that it is in, n times at
// once.
func knock(token, name string, n int) []string {
	return []string{"/bin/bash", "-c", fmt.Sprintf(`cd /tmp
for i in $(seq %d); do
	{ exec 3<>/dev/tcp/127.0.0.1/17017 && printf 'GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:17017\r\nAuthorization: Bearer %%s\r\nConnection: close\r\n\r\n' %s >&3 && cat <&3 || echo cannot connect; } &
done >part 2>&1
wait
mv part %s`, n, token, name)}
}
