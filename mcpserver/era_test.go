package mcpserver_test

import (
	"encoding/json"
	"testing"
)

// A client of either era is served, and hears the same.
func TestBothEras(t *testing.T) {
	w := newWorld(t)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			s := w.connect(version)
			hello := s.InitializeResult()
			if hello.ProtocolVersion != version {
				t.Errorf("the session is of %s", hello.ProtocolVersion)
			}
			if hello.ServerInfo.Name != "pi-mcp" || len(hello.Instructions) < 100 {
				t.Errorf("the server says %+v, instructions %q", hello.ServerInfo, hello.Instructions)
			}
			tools, err := s.ListTools(t.Context(), nil)
			must(t, err)
			if n := len(tools.Tools); n != 14 {
				t.Errorf("%d tools", n)
			}
			if out := do(t, s, "list", nil); out["count"] != 0.0 {
				t.Errorf("list returns %v", out)
			}
		})
	}
}

func TestOldestVersion(t *testing.T) {
	c := newWorld(t).wire()
	var hello struct {
		ProtocolVersion, Instructions string
		Capabilities                  map[string]any
	}
	must(t, json.Unmarshal(c.greet("2024-11-05"), &hello))
	if hello.ProtocolVersion != "2024-11-05" || hello.Instructions == "" || hello.Capabilities["tools"] == nil {
		t.Errorf("initialize says %+v", hello)
	}
	if _, logs := hello.Capabilities["logging"]; logs {
		t.Error("logging is offered, and nothing is logged")
	}
	if r := c.call("list", `{}`); r.Error != nil {
		t.Error(r.Error)
	}
}
