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
	"testing"

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
	if got := w.manyInCage(a.AgentID, ownToken, "many", 40); strings.Count(got, "hello "+a.AgentID) != 40 {
		t.Errorf("40 at once: %s", got)
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
		do("spawn", knock(ownToken, "early", 1)), do("wait_file", "/tmp/early"),
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
