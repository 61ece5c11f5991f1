package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// tools lists the tools, by name.
func tools(t testing.TB, s *mcp.ClientSession) map[string]*mcp.Tool {
	t.Helper()
	res, err := s.ListTools(t.Context(), nil)
	must(t, err)
	all := map[string]*mcp.Tool{}
	for _, tool := range res.Tools {
		all[tool.Name] = tool
	}
	return all
}

// Clients choose and ask by what a tool says of itself, so each says all of it.
func TestToolsDescribeThemselves(t *testing.T) {
	w := newWorld(t)
	for name, tool := range tools(t, w.connect("")) {
		a := tool.Annotations
		if tool.Title == "" || len(tool.Description) < 40 || a == nil || a.Title != tool.Title ||
			a.DestructiveHint == nil || a.OpenWorldHint == nil {
			t.Errorf("%s says too little: %+v, annotations %+v", name, tool, a)
			continue
		}
		if *a.DestructiveHint != (name == "remove") {
			t.Errorf("%s destroys: %v", name, *a.DestructiveHint)
		}
		reads := map[string]bool{"list": true, "get_info": true, "wait": true, "read": true, "grep": true, "list_tmp": true, "read_tmp": true, "grep_tmp": true}
		if a.ReadOnlyHint != reads[name] {
			t.Errorf("%s only reads: %v", name, a.ReadOnlyHint)
		}
	}
}

// Some clients refuse a whole list of tools for a schema that they do not expect:
// a union of types in an input, a bare boolean anywhere, a result that is no
// object.
func TestF49Schemas(t *testing.T) {
	w := newWorld(t)
	for name, tool := range tools(t, w.connect("")) {
		in, out := tool.InputSchema.(map[string]any), tool.OutputSchema.(map[string]any)
		if in["type"] != "object" || out["type"] != "object" {
			t.Errorf("%s takes %v and returns %v", name, in["type"], out["type"])
		}
		plain(t, name+" input", in, true)
		plain(t, name+" output", out, false)
	}
}

// plain looks at a schema and all below it.
func plain(t *testing.T, at string, schema any, input bool) {
	t.Helper()
	s, ok := schema.(map[string]any)
	if !ok {
		t.Errorf("%s is %v, no object", at, schema)
		return
	}
	if _, one := s["type"].(string); input && !one {
		t.Errorf("%s has the type %v", at, s["type"])
	}
	for _, word := range []string{"anyOf", "oneOf", "allOf", "$ref", "not"} {
		if s[word] != nil {
			t.Errorf("%s has %s", at, word)
		}
	}
	if items, there := s["items"]; there {
		plain(t, at+"[]", items, input)
	}
	if values, open := s["additionalProperties"].(map[string]any); open {
		plain(t, at+".*", values, input)
	}
	properties, _ := s["properties"].(map[string]any)
	for name, p := range properties {
		plain(t, at+"."+name, p, input)
		if p, ok := p.(map[string]any); input && ok && p["description"] == nil {
			t.Errorf("%s.%s is not described", at, name)
		}
	}
}

// What a client reads as text is what a program reads as structured content, and
// that is what the tool said it would be.
func TestF50TextAndStructureAgree(t *testing.T) {
	w := newWorld(t)
	says := map[string]*jsonschema.Resolved{}
	for name, tool := range tools(t, w.connect("")) {
		text, err := json.Marshal(tool.OutputSchema)
		must(t, err)
		var schema jsonschema.Schema
		must(t, json.Unmarshal(text, &schema))
		says[name], err = schema.Resolve(nil)
		must(t, err)
	}
	c := w.wire()
	c.greet("2025-11-25")
	called := map[string]bool{}
	w.play(c, func(s step, result json.RawMessage) {
		called[s.tool] = true
		if err := agree(result, says[s.tool]); err != nil {
			t.Errorf("%s: %v", s.file, err)
		}
	})
	if len(called) != len(says) {
		t.Errorf("%d of %d tools were called", len(called), len(says))
	}
}

func agree(result json.RawMessage, schema *jsonschema.Resolved) error {
	var res struct {
		Content           []struct{ Type, Text string }
		StructuredContent json.RawMessage
		IsError           bool
	}
	if err := json.Unmarshal(result, &res); err != nil {
		return err
	}
	if res.IsError || len(res.Content) != 1 || res.Content[0].Type != "text" {
		return fmt.Errorf("it is no result with one text: %s", result)
	}
	if res.Content[0].Text != string(res.StructuredContent) {
		return fmt.Errorf("the text is %s, the structure %s", res.Content[0].Text, res.StructuredContent)
	}
	var value any
	if err := json.Unmarshal(res.StructuredContent, &value); err != nil {
		return err
	}
	return schema.Validate(value)
}
