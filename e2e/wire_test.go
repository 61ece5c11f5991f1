package e2e

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A malformed line is answered, and does not end the session.
func TestF41BadLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.wire(nil)
	c.hello()
	for _, bad := range []string{`{bad json`, `"just a string"`, `[]`, `{"jsonrpc":"2.0","id":`, "\xff\xfe"} {
		c.line(bad)
		if m := c.answer("null"); m.Error == nil || m.Error.Code != -32700 && m.Error.Code != -32600 {
			t.Errorf("%q: %+v", bad, m)
		}
		if m := c.answer(c.ask("ping", obj{})); m.Error != nil || string(m.Result) != "{}" {
			t.Errorf("ping after %q: %+v", bad, m)
		}
	}
	c.line(`{bad json`)
	if m := c.answer("null"); m.Error.Code != -32700 {
		t.Errorf("{bad json: code %d", m.Error.Code)
	}
}

// Every version of the protocol that the SDK knows, with its own client.
func TestVersions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, version := range mcp.SupportedProtocolVersions() {
		c := w.clientOf(version)
		if got := c.session.InitializeResult().ProtocolVersion; got != version {
			t.Errorf("asked for %s, got %s", version, got)
		}
		tools, err := c.session.ListTools(t.Context(), nil)
		must(t, err)
		if len(tools.Tools) < 12 {
			t.Errorf("%s: %d tools", version, len(tools.Tools))
		}
		a := c.run(nil)
		if i := c.ask(a.ID, "hello"); i.text() != "You said: hello" {
			t.Errorf("%s: %+v", version, i)
		}
		call[obj](c, "remove", obj{"agent_id": a.ID})
		c.close()
	}
}

// Both eras on one connection, at once: requests that carry their version beside a
// session.
func TestBothErasOnOneConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.wire(nil)
	modern := func(params obj) obj {
		params["_meta"] = obj{
			"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
			"io.modelcontextprotocol/clientCapabilities": obj{},
			"io.modelcontextprotocol/clientInfo":         obj{"name": "e2e", "version": "1"},
		}
		return params
	}
	c.hello() // first: after server/discover the SDK takes no initialize
	discover := c.answer(c.ask("server/discover", modern(obj{})))
	has(t, "server/discover", string(discover.Result), `"2026-07-28"`, `"tools"`)
	_, failed := c.result(c.ask("tools/call", modern(obj{"name": "run", "arguments": obj{"name": "modern"}})))
	if failed {
		t.Error("run with a version of its own failed")
	}
	c.do("run", obj{"name": "older"})
	for era, id := range map[string]string{
		"older":  c.tool("list", obj{}),
		"modern": c.ask("tools/call", modern(obj{"name": "list", "arguments": obj{}})),
	} {
		text, _ := c.result(id)
		has(t, era, text, `"name":"modern"`, `"name":"older"`)
	}
	if m := c.answer(c.ask("ping", obj{})); m.Error != nil {
		t.Errorf("ping: %+v", m.Error)
	}
}
