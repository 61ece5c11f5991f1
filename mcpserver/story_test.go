package mcpserver_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// A step is a call that succeeds. In args, $ID is the agent that the first step
// made, and $DIR the world's directory.
type step struct {
	file, tool, args string
	then             func(id string)
}

// story calls every tool, in all the shapes that its answer has.
func (w *world) story() []step {
	for _, d := range []string{"project", "data", "data/secret"} {
		must(w.t, os.Mkdir(filepath.Join(w.dir, d), 0o755))
	}
	return []step{
		{"run", "run", `{"provider":"fake","model":"plain","context_size":50000,"thinking":"low","name":"first","cwd":"$DIR/project",
			"write":["$DIR/project"],"read":["$DIR/data"],"denied":["$DIR/data/secret"]}`, nil},
		{"send_message", "send_message", `{"agent_id":"$ID","message":"hello"}`, func(id string) { w.settled(id, 1) }},
		{"wait", "wait", `{"agent_ids":["$ID"],"after":{"$ID":0}}`, nil},
		{"wait_timeout", "wait", `{"agent_ids":["$ID"],"until":"all","after":{"$ID":1},"timeout_seconds":0}`, nil},
		{"get_info", "get_info", `{"agent_id":"$ID"}`, nil},
		{"list", "list", `{}`, w.litter},
		{"read_lines", "read", `{"agent_id":"$ID","stream":"errors","lines_from":0,"max_lines":1}`, nil},
		{"read_bytes", "read", `{"agent_id":"$ID","stream":"errors","bytes_from":6,"bytes_to":12}`, nil},
		{"grep", "grep", `{"agent_id":"$ID","args":["-n","cond"],"stream":"errors"}`, nil},
		{"list_tmp", "list_tmp", `{"agent_id":"$ID","path":"notes"}`, nil},
		{"read_tmp_lines", "read_tmp", `{"agent_id":"$ID","path":"notes/a.txt","lines_from":1,"lines_to":2}`, nil},
		{"read_tmp_bytes", "read_tmp", `{"agent_id":"$ID","path":"notes/link","bytes_from":4}`, nil},
		{"read_tmp_base64", "read_tmp", `{"agent_id":"$ID","path":"notes/raw"}`, nil},
		{"read_tmp_cut", "read_tmp", `{"agent_id":"$ID","path":"notes/a.txt","max_bytes":2}`, nil},
		{"grep_tmp", "grep_tmp", `{"agent_id":"$ID","args":["-n","needle"],"cwd":"notes","path":"a.txt"}`, nil},
		{"grep_tmp_none", "grep_tmp", `{"agent_id":"$ID","args":["nothing at all"]}`, w.hold},
		{"abort", "abort", `{"agent_id":"$ID"}`, nil},
		{"rip", "rip", `{"agent_id":"$ID"}`, nil},
		{"rip_again", "rip", `{"agent_id":"$ID"}`, nil},
		{"resurrect", "resurrect", `{"agent_id":"$ID","prompt":"![{\"turn\":\"again\",\"hold\":\"/tmp/never\"}]"}`, nil},
		{"remove", "remove", `{"agent_id":"$ID"}`, nil},
		{"run_prompt", "run", `{"prompt":"![{\"turn\":\"well\",\"hold\":\"/tmp/never\"}]"}`, nil},
	}
}

// play makes the calls of the story, in order, and shows what they returned.
func (w *world) play(c *wire, show func(s step, result json.RawMessage)) {
	w.t.Helper()
	id := ""
	for _, s := range w.story() {
		r := c.call(s.tool, strings.NewReplacer("$ID", id, "$DIR", w.dir).Replace(s.args))
		if r.Error != nil {
			w.t.Fatalf("%s: %v", s.file, r.Error)
		}
		var res struct {
			IsError           bool
			StructuredContent struct {
				AgentID string `json:"agent_id"`
			}
		}
		must(w.t, json.Unmarshal(r.Result, &res))
		if res.IsError {
			w.t.Fatalf("%s: %s", s.file, r.Result)
		}
		if id == "" {
			id = res.StructuredContent.AgentID
		}
		show(s, r.Result)
		if s.then != nil {
			s.then(id)
		}
	}
}

// litter puts something into an agent's /tmp and into its log.
func (w *world) litter(id string) {
	tmp := filepath.Join(w.files.Paths(id).Tmp, "notes")
	must(w.t, os.MkdirAll(filepath.Join(tmp, "more"), 0o755))
	must(w.t, os.WriteFile(filepath.Join(tmp, "a.txt"), []byte("one\ntwo <needle>\nthree\n"), 0o644))
	must(w.t, os.WriteFile(filepath.Join(tmp, "raw"), []byte{0xff, 0xfe}, 0o644))
	must(w.t, os.Symlink("a.txt", filepath.Join(tmp, "link")))
	must(w.t, os.WriteFile(w.files.Paths(id).ErrorLog, []byte("first\nsecond\n"), 0o600))
}

// hold gives an agent a run that lasts, and a message that waits behind it.
func (w *world) hold(id string) {
	s := w.connect("")
	do(w.t, s, "send_message", args{"agent_id": id, "message": `![{"record":{"type":"agent_start"}},{"touch":"/tmp/held"},{"wait_file":"/tmp/never"}]`})
	held := filepath.Join(w.files.Paths(id).Tmp, "held")
	w.eventually("the run", func() bool { _, err := os.Stat(held); return err == nil })
	out := do(w.t, s, "send_message", args{"agent_id": id, "message": "later"})
	if out["delivery"] != "hot_follow_up" || out["disposition"] != "queued" || out["state"] != "active" {
		w.t.Errorf("a message behind a run is %v", out)
	}
}
