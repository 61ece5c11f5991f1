package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mcpFile is what an agent's pi is told of its endpoint.
func (w *world) mcpFile(id string) string {
	w.t.Helper()
	text, err := os.ReadFile(w.path("agents", id, "pi", "mcp.json"))
	must(w.t, err)
	return string(text)
}

// token is what an agent shows at its endpoint.
func (w *world) token(id string) string {
	w.t.Helper()
	var file struct {
		MCPServers map[string]struct {
			Headers struct{ Authorization string }
		}
	}
	must(w.t, json.Unmarshal([]byte(w.mcpFile(id)), &file))
	token, ok := strings.CutPrefix(file.MCPServers["pi-mcp"].Headers.Authorization, "Bearer ")
	if !ok || len(token) != 43 {
		w.t.Fatalf("the token is %q", token)
	}
	return token
}

// The model of a real pi in a real cage calls tools of its own endpoint, under every
// sort of network, and finds itself.
func TestEndpointOfModel(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"internet", "provider", "host"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			w, m := newReal(t)
			c := w.client()
			a := c.run(obj{"network": network})
			has(t, "the agent's list", c.ask(a.ID, callTool("list", obj{})).text(), `"count":1`, a.ID, `"state":"active"`)
			declared := map[string]bool{}
			for _, tool := range m.Requests()[0].Tools {
				declared[tool.Name] = true
			}
			if !declared[mcpTool("list")] || !declared[mcpTool("run")] || !declared["bash"] {
				t.Errorf("the model is told of %v", declared)
			}
			call[info](c, "rip", obj{"agent_id": a.ID})
			call[info](c, "resurrect", obj{"agent_id": a.ID})
			has(t, "after a resurrection", c.ask(a.ID, callTool("get_info", obj{"agent_id": a.ID})).text(), `"retries":1`)
		})
	}
}

// Turned off, there is no endpoint: nothing is written, nothing listens, and the
// model is told of no tools.
func TestNoEndpoint(t *testing.T) {
	t.Parallel()
	const look = "bash: ls /pi-agent; (exec 3<>/dev/tcp/127.0.0.1/17017) 2>/dev/null && echo somebody listens || echo nobody listens"
	for _, test := range []struct {
		value string
		on    bool
	}{{"0", false}, {"false", false}, {"off", false}, {"1", true}, {"on", true}} {
		t.Run(test.value, func(t *testing.T) {
			t.Parallel()
			w, m := newReal(t)
			c := w.client("PI_MCP_CHILD_MCP=" + test.value)
			answer := c.ask(c.run(nil).ID, look).text()
			if strings.Contains(answer, "mcp.json") != test.on || strings.Contains(answer, "somebody listens") != test.on {
				t.Errorf("the agent finds %s", answer)
			}
			told := false
			for _, tool := range m.Requests()[0].Tools {
				told = told || strings.HasPrefix(tool.Name, "mcp__")
			}
			if told != test.on {
				t.Errorf("told of tools: %v", told)
			}
		})
	}
}

// mcpList has another pi, with the Node.js of the agent's own, which is the parent of
// the shell, look at the servers of a settings directory.
const mcpList = "bash: PI_CODING_AGENT_DIR=%s /proc/$PPID/exe /opt/pi-mcp/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js mcp list --json 2>&1; echo exit code $?"

// The endpoint knows the token of its own agent, of this process, and no other. What
// says so is pi's own client in the cage.
func TestEndpointTokens(t *testing.T) {
	t.Parallel()
	w, _ := newReal(t)
	c := w.client()
	a, b := c.run(nil), c.run(nil)
	list := func(i info, dir string) string { return c.ask(i.ID, strings.Replace(mcpList, "%s", dir, 1)).text() }
	settings := func(dir, text string) string {
		write(t, filepath.Join(a.Artifacts.Tmp, dir, "mcp.json"), text)
		return "/tmp/" + dir
	}
	good := w.mcpFile(a.ID)
	wrong := strings.Replace(good, w.token(a.ID), strings.Repeat("A", 43), 1)
	none := strings.Replace(good, `"Authorization"`, `"X-Nothing"`, 1)
	connected := func(what, answer string) { has(t, what, answer, `"connected"`, "exit code 0") }
	refused := func(what, answer string) {
		has(t, what, answer, "exit code 1")
		if strings.Contains(answer, `"connected"`) {
			t.Errorf("%s is connected: %s", what, answer)
		}
	}
	connected("the agent's own settings", list(a, "/pi-agent"))
	connected("a copy of them", list(a, settings("copy", good)))
	refused("a wrong token", list(a, settings("wrong", wrong)))
	refused("no token", list(a, settings("none", none)))
	refused("the other agent's token", list(a, settings("other", w.mcpFile(b.ID))))
	connected("the control: the other agent", list(b, "/pi-agent"))
	call[info](c, "rip", obj{"agent_id": a.ID})
	call[info](c, "resurrect", obj{"agent_id": a.ID})
	refused("the token of the process before", list(a, "/tmp/copy"))
	connected("that of the new one", list(a, "/pi-agent"))
	call[info](c, "rip", obj{"agent_id": b.ID})
	connected("while another is gone", list(a, "/pi-agent"))
}

// Several steps in one turn: what one call returned goes into the next, and two calls
// are asked for at once.
func TestModelSteps(t *testing.T) {
	t.Parallel()
	w, _ := newReal(t)
	c := w.client()
	a := c.run(nil)
	answer := c.ask(a.ID, steps(
		`bash: printf '{"agent_id":"%s"}' "$AGENT_ID"`,
		"call: "+mcpTool("get_info")+` {"agent_id":"<1.agent_id>"}`,
		"and: bash: echo at once",
		"bash: echo 'found <2.session_id>, <3>'",
	)).text()
	has(t, "the last step", answer, "found "+a.SessionID, "at once")
}
