package mcpserver_test

import (
	"slices"
	"strings"
	"testing"
)

// The fields and arguments that clients have been written against: more may come,
// none may go or change its type. A ? is a field that can be null, a type in
// brackets that of an array's items.
const (
	info = `agent_id string, name string, state string, provider string, model string, context_size integer?,
		mounts object, mounts.write [string], mounts.read [string], mounts.denied [string], cwd string, session_id string, pid integer?,
		created_at string, updated_at string, last_activity_at string,
		messages object, messages.total integer, messages.user integer, messages.assistant integer, messages.tool_calls integer,
		` + tokens + `, cost number, session_bytes integer, ` + logs + `, queue_length integer, settle_count integer,
		last_error string?, exit_code integer?, ` + lifecycle + `, parent_agent_id string?, depth integer, children [string], callback_agent_id string?,
		callback object, callback.agent_id string?, callback.settle_count integer, callback.notified_seq integer,
		callback.notified_at string?, callback.error string?,
		artifacts object, artifacts.dir string, artifacts.stdout_log string, artifacts.error_log string, artifacts.session string, artifacts.tmp string,
		last_assistant_text string?`
	tokens    = `tokens object, tokens.input integer, tokens.output integer, tokens.cache_read integer, tokens.cache_write integer, tokens.total integer`
	logs      = `logs object, logs.stdout_bytes integer, logs.stderr_bytes integer`
	lifecycle = `lifecycle object, lifecycle.retries integer, lifecycle.rips integer, lifecycle.self_exits integer,
		lifecycle.ripped_at string?, lifecycle.resurrected_at string?`
	sent  = `prompt_sent boolean, delivery string?, disposition string?`
	chunk = `agent_id string, path string, mode string, size integer, lines_from integer?, lines_to integer?, bytes_from integer?, bytes_to integer?,
		line_count integer, next_line integer?, next_offset integer, eof boolean, max_lines integer?, max_bytes integer, encoding string, content string,
		truncated_regions [object], truncated_regions.bytes_from integer, truncated_regions.bytes_to integer, truncated_regions.line integer, warnings [string]`
	grep = `agent_id string, binary string, cwd string, path string?, args [string], argv [string], exit_code integer,
		stdout string, stderr string, stdout_truncated boolean, stderr_truncated boolean`
	someRange = `lines_from integer, lines_to integer, bytes_from integer, bytes_to integer, max_lines integer, max_bytes integer`
)

var results = map[string]string{
	"list": `count integer, total integer, next_cursor string?, agents [object], agents.agent_id string, agents.name string, agents.state string,
		agents.provider string, agents.model string, agents.context_size integer?, agents.messages integer, agents.cost number,
		agents.settle_count integer, agents.parent_agent_id string?, agents.depth integer, agents.children [string], agents.updated_at string, ` +
		strings.NewReplacer("tokens", "agents.tokens", "logs", "agents.logs", "lifecycle", "agents.lifecycle").Replace(tokens+", "+logs+", "+lifecycle),
	"get_info":     info,
	"run":          info + ", " + sent,
	"rip":          info + `, ripped boolean, already_ripped boolean`,
	"resurrect":    info + `, resurrected boolean, ` + sent,
	"send_message": `agent_id string, delivery string, disposition string, state string, settle_count integer`,
	"abort":        `agent_id string, aborted boolean, state string, cleared [string]`,
	"wait": `done boolean, timed_out boolean, agents [object], agents.id string, agents.state string, agents.settle_count integer,
		agents.last_assistant_text string?, agents.last_assistant_text_bytes integer, agents.last_error string?`,
	"remove": `agent_id string, removed boolean`,
	"read":   chunk + `, stream string`,
	"grep":   grep + `, stream string`,
	"list_tmp": `agent_id string, path string, recursive boolean, count integer, truncated boolean, entries [object], entries.path string,
		entries.type string, entries.size integer, entries.mtime number, entries.target string`,
	"read_tmp": chunk,
	"grep_tmp": grep,
}

var arguments = map[string]string{
	"list":     `states [string], limit integer, cursor string`,
	"get_info": `agent_id string`,
	"run": `provider string, model string, context_size integer, write [string], read [string], denied [string],
		callback_agent_id string, access_token string, prompt string, name string, cwd string, thinking string, network string`,
	"rip":          `agent_id string, descendants boolean`,
	"resurrect":    `agent_id string, prompt string`,
	"send_message": `agent_id string, message string, mode string, resurrect boolean`,
	"abort":        `agent_id string, clear_queue boolean`,
	"remove":       `agent_id string, descendants boolean`,
	"wait":         `agent_ids [string], until string, after object, timeout_seconds integer`,
	"read":         `agent_id string, stream string, ` + someRange,
	"grep":         `agent_id string, args [string], stream string`,
	"list_tmp":     `agent_id string, path string, recursive boolean, max_entries integer`,
	"read_tmp":     `agent_id string, path string, ` + someRange,
	"grep_tmp":     `agent_id string, args [string], cwd string, path string`,
}

func TestContractHolds(t *testing.T) {
	w := newWorld(t)
	offered := tools(t, w.connect(""))
	for what, fixed := range map[string]map[string]string{"argument": arguments, "field": results} {
		for tool, fields := range fixed {
			if offered[tool] == nil {
				t.Errorf("there is no tool %s", tool)
				continue
			}
			schema := offered[tool].OutputSchema
			if what == "argument" {
				schema = offered[tool].InputSchema
			}
			for field := range strings.SplitSeq(fields, ",") {
				path, kind, _ := strings.Cut(strings.TrimSpace(field), " ")
				if got := kindAt(schema, path); got != strings.TrimSpace(kind) {
					t.Errorf("%s %s of %s is %q, not %q", what, path, tool, got, kind)
				}
			}
		}
	}
	if stream := kindAt(offered["grep_tmp"].OutputSchema, "stream") + kindAt(offered["read_tmp"].OutputSchema, "stream"); stream != "" {
		t.Error("what is read from /tmp has a stream")
	}
}

// kindAt is the type of a property in a schema, "" if there is none.
func kindAt(schema any, path string) string {
	for name := range strings.SplitSeq(path, ".") {
		s := schema.(map[string]any)
		if items, ok := s["items"].(map[string]any); ok {
			s = items
		}
		schema = nil
		if p, ok := s["properties"].(map[string]any); ok {
			schema = p[name]
		}
		if schema == nil {
			return ""
		}
	}
	s := schema.(map[string]any)
	if items, ok := s["items"]; ok { // whether an array may be null does not matter
		return "[" + kindAt(map[string]any{"properties": map[string]any{"x": items}}, "x") + "]"
	}
	kind, ok := s["type"].(string)
	if types, union := s["type"].([]any); !ok && union {
		types = slices.DeleteFunc(slices.Clone(types), func(t any) bool { return t == "null" })
		kind = types[0].(string) + "?"
	}
	return kind
}
