package mcpserver_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A caged is an agent and the way to its endpoint. It has the host's network, so this
// process can call in its place.
type caged struct {
	*world
	id, url, token string
}

// caged starts an agent that has an endpoint.
func (w *world) caged() *caged {
	w.t.Helper()
	w.sup.Serve(w.server.Endpoint)
	id := do(w.t, w.connect(""), "run", args{"network": "host"})["agent_id"].(string)
	return w.endpointOf(id)
}

func (w *world) endpointOf(id string) *caged {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.files.Paths(id).Pi, "mcp.json"))
	must(w.t, err)
	var file struct {
		MCPServers map[string]struct {
			URL     string
			Headers struct{ Authorization string }
		}
	}
	must(w.t, json.Unmarshal(text, &file))
	s := file.MCPServers["pi-mcp"]
	return &caged{w, id, s.URL, s.Headers.Authorization}
}

// RoundTrip adds the agent's token to a request.
func (a *caged) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", a.token)
	return http.DefaultTransport.RoundTrip(r)
}

// session is a real client at the endpoint, with a version, "" for the newest.
func (a *caged) session(version string) *mcp.ClientSession {
	a.t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "0"}, nil)
	s, err := client.Connect(a.t.Context(), &mcp.StreamableClientTransport{
		Endpoint: a.url, HTTPClient: &http.Client{Transport: a}, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: version})
	must(a.t, err)
	a.t.Cleanup(func() { s.Close() })
	return s
}

// A reply is an answer of the endpoint as it is on the wire.
type reply struct {
	status           int
	session, content string
}

// post sends a message as it is. A session of "" is none.
func (a *caged) post(session, message string) reply {
	return a.ask(context.Background(), "POST", session, message)
}

func (a *caged) ask(ctx context.Context, method, session, message string) reply {
	a.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, a.url, strings.NewReader(message))
	must(a.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
	}
	res, err := a.RoundTrip(req)
	if err != nil {
		return reply{content: err.Error()}
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body) // one that is cut off is what it is
	return reply{res.StatusCode, res.Header.Get("Mcp-Session-Id"), string(body)}
}

// open opens a session and returns its id.
func (a *caged) open() reply {
	a.t.Helper()
	return a.post("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"0"}}}`)
}

const listTools = `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`

// served are the goroutines that have to do with an endpoint.
func served() (all []string) {
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	buf := make([]byte, 4<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for _, g := range strings.Split(string(buf), "\n\n") {
		for _, part := range []string{"reamableServer", "StreamableHTTPHandler", "net/http.(*conn)", "pi-mcp/mcpserver.("} {
			if strings.Contains(g, part) {
				all = append(all, g)
				break
			}
		}
	}
	return all
}

// atRest waits until nothing of an endpoint is going on in this process.
func atRest(t testing.TB, w *world) {
	t.Helper()
	w.eventually("the end of all goroutines", func() bool { return len(served()) == 0 })
}
