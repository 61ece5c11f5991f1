package mcpserver_test

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/store"
)

// badValues are arguments of the right type that cannot be meant. $ID is a live
// agent, $FOREIGN one of another group, $DIR a directory of the host.
var badValues = map[string][]bad{
	"list": {
		{"cursor", `{"cursor":"next"}`}, {"cursor", `{"cursor":"../../etc/passwd"}`}, {"limit", `{"limit":5001}`},
	},
	"run": {
		{"prompt", `{"prompt":""}`}, {"prompt", `{"prompt":" \n\t"}`},
		{"provider", `{"provider":""}`}, {"provider", `{"provider":"-x"}`}, {"provider", `{"provider":"a\nb"}`},
		{"model", `{"model":""}`}, {"model", `{"model":"--model"}`}, {"model", `{"model":"$LONG"}`},
		{"name", `{"name":""}`}, {"name", `{"name":"$LONG"}`}, {"name", `{"name":"a\u0007b"}`},
		{"context_size", `{"context_size":19999}`}, {"context_size", `{"context_size":0}`}, {"context_size", `{"context_size":1e12}`},
		{"cwd", `{"cwd":""}`}, {"cwd", `{"cwd":"relative"}`}, {"cwd", `{"cwd":"/etc"}`}, {"cwd", `{"cwd":"$DIR"}`}, {"cwd", `{"cwd":"$DIR/none","write":["$DIR"]}`},
		{"access_token", `{"access_token":""}`}, {"access_token", `{"access_token":"short"}`},
		{"write", `{"write":["relative"]}`}, {"write", `{"write":[""]}`}, {"write", `{"write":["/"]}`}, {"write", `{"write":["/proc"]}`},
		{"write", `{"write":["$DIR/none"]}`}, {"write", `{"write":["$DIR/../$BASE"]}`}, {"write", `{"write":["$STATE"]}`},
		{"read", `{"read":["/"]}`}, {"read", `{"read":["$DIR/none"]}`}, {"read", `{"read":["$STATE"]}`},
		{"denied", `{"write":["$DIR"],"denied":["$DIR/none"]}`}, {"denied", `{"denied":["../x"]}`},
		{"callback_agent_id", `{"callback_agent_id":""}`}, {"callback_agent_id", `{"callback_agent_id":"../../etc/passwd"}`},
		{"callback_agent_id", `{"callback_agent_id":"$FOREIGN","access_token":"a new group"}`},
		{"callback_agent_id", `{"callback_agent_id":"01a1964b-2c01-70a5-b520-78f933cdafad"}`},
	},
	"send_message": {
		{"message", `{"agent_id":"$ID","message":""}`}, {"message", `{"agent_id":"$ID","message":" \n"}`},
		{"message", `{"agent_id":"$ID","message":"$HUGE"}`},
	},
	"resurrect": {{"prompt", `{"agent_id":"$ID","prompt":""}`}, {"prompt", `{"agent_id":"$ID","prompt":"\t"}`}},
	"wait": {
		{"agent_ids", `{"agent_ids":[]}`}, {"agent_ids", `{"agent_ids":[""]}`}, {"agent_ids", `{"agent_ids":["$ID","../../etc/passwd"]}`},
		{"agent_ids", `{"agent_ids":["$FOREIGN"]}`}, {"agent_ids", `{"agent_ids":["$ID","01a1964b-2c01-70a5-b520-78f933cdafad"]}`},
		{"agent_ids", `{"agent_ids":[$MANY"$ID"]}`}, {"after", `{"agent_ids":["$ID"],"after":{"$FOREIGN":1}}`}, {"after", `{"agent_ids":["$ID"],"after":{"":1}}`},
		{"after", `{"agent_ids":["$ID"],"after":{"$ID":-1}}`}, {"after", `{"agent_ids":["$ID"],"after":{"$ID":null}}`}, {"after", `{"agent_ids":["$ID"],"after":{"$HUGE":0}}`},
		{"timeout_seconds", `{"agent_ids":["$ID"],"timeout_seconds":3601}`}, {"until", `{"agent_ids":["$ID"],"until":"ALL"}`},
	},
	"read": {
		{"bytes_from", `{"agent_id":"$ID","lines_from":0,"bytes_from":0}`}, {"bytes_from", `{"agent_id":"$ID","lines_to":1,"bytes_to":1}`},
		{"lines_to", `{"agent_id":"$ID","lines_from":5,"lines_to":4}`}, {"bytes_to", `{"agent_id":"$ID","bytes_from":5,"bytes_to":4}`},
		{"max_bytes", `{"agent_id":"$ID","max_bytes":10485761}`},
	},
	"read_tmp": {
		{"path", `{"agent_id":"$ID","path":""}`}, {"path", `{"agent_id":"$ID","path":"notes"}`}, {"path", `{"agent_id":"$ID","path":"none"}`},
		{"path", `{"agent_id":"$ID","path":"../stdout.log"}`}, {"path", `{"agent_id":"$ID","path":"/etc/passwd"}`},
		{"path", `{"agent_id":"$ID","path":"escape"}`}, {"bytes_from", `{"agent_id":"$ID","path":"notes/a.txt","lines_from":0,"bytes_from":0}`},
	},
	"list_tmp": {
		{"path", `{"agent_id":"$ID","path":".."}`}, {"path", `{"agent_id":"$ID","path":"/etc"}`}, {"path", `{"agent_id":"$ID","path":"none"}`},
		{"path", `{"agent_id":"$ID","path":"notes/a.txt"}`}, {"path", `{"agent_id":"$ID","path":"escape"}`},
	},
	"grep": {
		{"args", `{"agent_id":"$ID","args":[]}`}, {"args", `{"agent_id":"$ID","args":["-n"]}`}, {"args", `{"agent_id":"$ID","args":["-f","/etc/passwd"]}`},
		{"args", `{"agent_id":"$ID","args":["x","/etc/passwd"]}`}, {"args", `{"agent_id":"$ID","args":["--file=/etc/passwd"]}`},
	},
	"grep_tmp": {
		{"args", `{"agent_id":"$ID","args":[]}`}, {"args", `{"agent_id":"$ID","args":["x","/etc/passwd"]}`}, {"args", `{"agent_id":"$ID","args":["x","../stdout.log"]}`},
		{"cwd", `{"agent_id":"$ID","args":["x"],"cwd":".."}`}, {"cwd", `{"agent_id":"$ID","args":["x"],"cwd":"/etc"}`},
		{"path", `{"agent_id":"$ID","args":["x"],"path":"../stdout.log"}`}, {"path", `{"agent_id":"$ID","args":["x"],"path":"none"}`},
	},
}

func TestBadValues(t *testing.T) {
	f := newFixture(t)
	host := t.TempDir()
	must(t, os.Symlink("/etc/passwd", filepath.Join(f.files.Paths(f.id).Tmp, "escape")))
	fill := strings.NewReplacer("$ID", f.id, "$FOREIGN", f.foreign, "$DIR", host, "$BASE", filepath.Base(host), "$STATE", filepath.Join(f.dir, "state"),
		"$LONG", strings.Repeat("x", 201), "$HUGE", strings.Repeat("x", 1<<20+1), "$MANY", strings.Repeat(`"`+f.id+`",`, 256))
	for tool, all := range badValues {
		t.Run(tool, func(t *testing.T) {
			f.t, f.c.t = t, t
			good := f.good(tool)
			before := f.state()
			for _, b := range all {
				f.refuses(tool, bad{b.arg, fill.Replace(b.args)})
			}
			if diff := cmp.Diff(before, f.state()); diff != "" {
				t.Errorf("something has changed:\n%s", diff)
			}
			f.taken(tool, object(t, good))
		})
	}
	f.t = t
	hash := sha256.Sum256([]byte("a new group"))
	_, err := f.db.GroupByToken(t.Context(), hash[:])
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a refused run has made a group: %v", err)
	}
}
