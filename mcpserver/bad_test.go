package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A bad call, and the argument that the error is about.
type bad struct{ arg, args string }

// Each tool refuses what its schema does not allow, in words that name the
// argument and the remedy, and nothing comes of it.
func TestBadArguments(t *testing.T) {
	f := newFixture(t)
	for _, tool := range slices.Sorted(maps.Keys(f.tools)) {
		t.Run(tool, func(t *testing.T) {
			f.t, f.c.t = t, t
			good := f.good(tool)
			before := f.state()
			for _, b := range f.bad(tool, good) {
				f.refuses(tool, b)
			}
			if diff := cmp.Diff(before, f.state()); diff != "" {
				t.Errorf("something has changed:\n%s", diff)
			}
			f.taken(tool, object(t, good))
		})
	}
}

// remedies are words of which an error has one that says what to do instead.
var remedies = []string{"pass", "list", "takes", "must", "leave", "add", "name", "make", "give", "grant", "choose", "create", "put", "than", "read_tmp"}

// refuses checks one refusal.
func (f *fixture) refuses(tool string, b bad) {
	f.t.Helper()
	text := f.c.refused(tool, b.args)
	rest, ok := strings.CutPrefix(text, b.arg)
	if !ok || !strings.Contains(rest, ": ") && !strings.HasPrefix(rest, ": ") {
		f.t.Errorf("%s of %.200s says %.300q, not what is wrong with %s", tool, b.args, text, b.arg)
	}
	remedy := func(word string) bool { return strings.Contains(rest, word) }
	if !slices.ContainsFunc(remedies, remedy) {
		f.t.Errorf("%s of %.200s says %.300q, and not what to do", tool, b.args, text)
	}
	if len(text) > 1000 {
		f.t.Errorf("%s of %.200s has a text of %d bytes", tool, b.args, len(text))
	}
}

// bad makes what a tool's schema forbids.
func (f *fixture) bad(tool string, good args) []bad {
	in := f.tools[tool].InputSchema.(map[string]any)
	all := []bad{
		{"arguments", `[]`}, {"arguments", `"x"`}, {"arguments", `5`}, {"arguments", `true`}, {"arguments", `[{}]`},
		{"bogus", object(f.t, good, "bogus", 1)}, {"bogus", object(f.t, good, "bogus", nil)},
		{"Agent_ID", object(f.t, good, "Agent_ID", f.id)},
		{`"\x00"`, object(f.t, good, "\x00", f.id)}, {`""`, object(f.t, good, "", f.id)},
		{`"xxx`, object(f.t, good, strings.Repeat("x", 1<<20), 1)},
	}
	required, _ := in["required"].([]any)
	for _, name := range required {
		without := maps.Clone(good)
		delete(without, name.(string))
		all = append(all, bad{name.(string), object(f.t, without)}, bad{name.(string), object(f.t, good, name, nil)})
	}
	for name, p := range in["properties"].(map[string]any) {
		for _, v := range wrong(p.(map[string]any)) {
			all = append(all, bad{name, object(f.t, good, name, v)})
		}
	}
	if in["properties"].(map[string]any)["agent_id"] != nil {
		for _, id := range []string{"", "x", "../../etc/passwd", f.foreign, newID(f.t), strings.ToUpper(f.id), f.id + "\n", "{" + f.id + "}", "urn:uuid:" + f.id} {
			all = append(all, bad{"agent_id", object(f.t, good, "agent_id", id)})
		}
	}
	return all
}

// wrong makes values that a property's schema forbids.
func wrong(p map[string]any) (all []any) {
	number := func(text string) any { return json.RawMessage(text) }
	switch p["type"] {
	case "string":
		all = []any{5, true, []string{}, args{}, []string{"x"}, "a\x00b"}
		if p["enum"] != nil {
			all = append(all, "nope", "", strings.ToUpper(fmt.Sprint(p["enum"].([]any)[0])))
		}
	case "boolean":
		all = []any{0, 1, "true", "", []bool{true}, args{}}
	case "integer":
		all = []any{"5", "", true, []int{5}, args{}, 1.5, number("1e400"), -0.5}
		if least, ok := p["minimum"].(float64); ok {
			all = append(all, least-1, -1, number("-1e300"), number("1e300"), number("9007199254740994"))
		}
		if most, ok := p["maximum"].(float64); ok {
			all = append(all, most+1)
		}
	case "object":
		all = []any{"x", 5, true, []string{}, args{"x": "5"}, args{"x": nil}, args{"x": args{}}, args{"x": 1.5}, args{"\x00": -1}}
	case "array":
		all = []any{"x", 5, true, args{}, []int{1}, []any{nil}, []any{[]string{}}, []any{args{}}, []any{"a\x00b"}}
		if p["items"].(map[string]any)["enum"] != nil {
			all = append(all, []string{"nope"}, []string{""})
		}
	}
	return all
}

// What is no tool is not the model's mistake to correct, but a client's.
func TestUnknownTool(t *testing.T) {
	c := newWorld(t).wire()
	c.greet("2025-11-25")
	for _, name := range []string{"nope", "", "List", "list "} {
		r := c.call(name, `{}`)
		if e, ok := r.Error.(*jsonrpc.Error); !ok || e.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("%q is answered with %v, %s", name, r.Error, r.Result)
		}
	}
	if r := c.call("list", `{}`); r.Error != nil {
		t.Error(r.Error)
	}
}
