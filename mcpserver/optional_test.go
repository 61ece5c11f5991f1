package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// options are values for the arguments that may be left out, as sets that can be
// given together. $LIVE is an agent.
var options = map[string][]args{
	"list": {{"states": []string{"exited", "idle"}, "limit": 5, "cursor": "ffffffff-ffff-7fff-bfff-ffffffffffff"}},
	"run": {{"provider": "fake", "model": "plain", "context_size": 20000, "write": []string{}, "read": []string{}, "denied": []string{},
		"access_token": "a token of another", "prompt": "hello", "name": "n", "cwd": "/tmp", "thinking": "low", "network": "provider"},
		{"callback_agent_id": "$LIVE"}},
	"resurrect":    {{"prompt": "hello"}},
	"send_message": {{"mode": "steer", "resurrect": true}},
	"abort":        {{"clear_queue": false}},
	"rip":          {{"descendants": true}},
	"remove":       {{"descendants": true}},
	"wait":         {{"until": "all", "after": map[string]int{}, "timeout_seconds": 0}},
	"read": {{"stream": "errors", "lines_from": 0, "lines_to": 1, "max_lines": 1, "max_bytes": 1},
		{"bytes_from": 0, "bytes_to": 1}},
	"read_tmp": {{"lines_from": 0, "lines_to": 1, "max_lines": 1, "max_bytes": 10 << 20}, {"bytes_from": 0, "bytes_to": 1}},
	"grep":     {{"stream": "stdout"}},
	"list_tmp": {{"path": "notes", "recursive": false, "max_entries": 5}},
	"grep_tmp": {{"cwd": "notes", "path": "a.txt"}},
}

// Clients write what they do not want to say as null, or not at all.
func TestF49OptionalArguments(t *testing.T) {
	f := newFixture(t)
	for _, tool := range slices.Sorted(maps.Keys(f.tools)) {
		in := f.tools[tool].InputSchema.(map[string]any)
		nulls, given := args{}, map[string]bool{}
		for name := range in["properties"].(map[string]any) {
			if required, _ := in["required"].([]any); !slices.Contains(required, any(name)) {
				nulls[name] = nil
			}
		}
		f.taken(tool, object(t, f.good(tool)))
		f.with(tool, nulls)
		for _, set := range options[tool] {
			f.with(tool, set)
			for name := range set {
				given[name] = true
			}
		}
		for name := range nulls {
			if !given[name] {
				t.Errorf("%s of %s is not tried", name, tool)
			}
		}
	}
	// Without any arguments at all, in both ways of saying so.
	f.taken("list", `null`)
	if r := f.c.ask("tools/call", `{"name":"list"}`); r.Error != nil {
		t.Error(r.Error)
	}
}

// with calls a tool with more arguments than it needs.
func (f *fixture) with(tool string, more args) {
	f.t.Helper()
	all := f.good(tool)
	maps.Copy(all, more)
	f.taken(tool, strings.ReplaceAll(object(f.t, all), "$LIVE", f.id))
}

// Some clients write every number with a fraction or an exponent.
func TestIntegersInAnySpelling(t *testing.T) {
	f := newFixture(t)
	for _, five := range []string{"5", "5.0", "5e0", "50E-1", "0.5e+1"} {
		out := f.taken("read_tmp", fmt.Sprintf(`{"agent_id":%q,"path":"notes/a.txt","bytes_from":%s}`, f.id, five))
		if out["bytes_from"] != 5.0 || out["content"] != "wo <needle>\nthree\n" {
			t.Errorf("bytes_from %s is taken as %v", five, out)
		}
	}
	if out := f.taken("run", `{"context_size":2.5e4}`); out["context_size"] != 25000.0 {
		t.Errorf("context_size 2.5e4 is taken as %v", out["context_size"])
	}
	f.refuses("read_tmp", bad{"bytes_from", object(t, f.good("read_tmp"), "bytes_from", json.RawMessage("5.5"))})
}

func TestMaxEntriesIsClamped(t *testing.T) {
	f := newFixture(t)
	all := f.taken("list_tmp", object(t, f.good("list_tmp")))["count"]
	for given, want := range map[string]any{"1": 1.0, "0": 1.0, "-7": 1.0, "-1e300": 1.0, "5000": all, "5001": all, "1e12": all, "1e300": all} {
		out := f.taken("list_tmp", object(t, f.good("list_tmp"), "max_entries", json.RawMessage(given)))
		if out["count"] != want {
			t.Errorf("max_entries %s returns %v entries, not %v", given, out["count"], want)
		}
	}
}
