package pirpc_test

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"pi-mcp/agent/pirpc"
)

// FuzzOutput feeds arbitrary output in arbitrary pieces, and compares what
// arrives with what encoding/json makes of the same lines. With the deltas left
// out, only the records are compared: what begins like a delta is not looked at
// any further.
func FuzzOutput(f *testing.F) {
	for _, seed := range []string{
		"{\"type\":\"response\",\"id\":\"1\"}\n{}\n\n{\"type\":3}\n",
		"{\"type\":\"agent_end\",\"x\":[{\"a\":\"\\\"}\"}]}\r\nhalf",
		"{\"type\":\"message_update\"}\n{\"x\":1,\"type\":\"message_update\"}\n",
		"{\"type\":\"extension_ui_request\",\"id\":\"a\",\"method\":\"select\"}\n",
		"{\"type\":\"a\u2028\",\"id\":\"\\ud800\"}\n{\"id\":tru",
		" { \"a\" : [ ] , \"type\" : \"b\" } \n",
	} {
		f.Add([]byte(seed), uint16(3), uint16(20))
		f.Add([]byte(seed), uint16(1000), uint16(1000))
	}
	f.Fuzz(func(t *testing.T, out []byte, piece, max uint16) {
		limit := int(max) + 1
		all := pirpc.Config{MaxRecord: limit, Want: func(string) bool { return true }}
		want := oracle(out, limit)
		if diff := cmp.Diff(want, arrives(t, out, int(piece)+1, all)); diff != "" {
			t.Error(diff)
		}
		some := pirpc.Config{MaxRecord: limit}
		got := slices.DeleteFunc(arrives(t, out, int(piece)+1, some), unknown)
		if diff := cmp.Diff(slices.DeleteFunc(want, unknown), got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("without deltas: %s", diff)
		}
	})
}

func unknown(r pirpc.Record) bool {
	return r.Type == "" || r.Type == "message_update" || r.Type == "tool_execution_update"
}

// arrives returns the records that were not cut, having checked what holds for
// any output.
func arrives(t *testing.T, out []byte, piece int, cfg pirpc.Config) (whole []pirpc.Record) {
	var log bytes.Buffer
	cfg.Log = &log
	records, client := listen(t, &pieces{out, piece}, cfg)
	if !bytes.Equal(log.Bytes(), out) {
		t.Errorf("log = %q", log.Bytes())
	}
	if client.Err() != pirpc.ErrClosed {
		t.Errorf("ended with %v", client.Err())
	}
	for _, r := range records {
		if len(r.Raw) > cfg.MaxRecord {
			t.Errorf("%d bytes passed the limit of %d", len(r.Raw), cfg.MaxRecord)
		}
		if !r.Cut {
			whole = append(whole, r)
		}
	}
	return whole
}

// oracle is the obvious way to read pi, for records up to the limit.
func oracle(out []byte, limit int) (records []pirpc.Record) {
	lines := bytes.Split(out, []byte("\n"))
	for i, line := range lines {
		if last := i == len(lines)-1; last && !json.Valid(line) {
			continue
		}
		line = bytes.TrimSuffix(line, []byte("\r"))
		if len(line) == 0 || len(line) > limit {
			continue
		}
		r := pirpc.Record{Raw: line}
		if json.Valid(line) {
			r.Type, r.ID = member(line, "type"), member(line, "id")
		}
		if r.Type == "" {
			r.ID = ""
		}
		records = append(records, r)
	}
	return records
}

// member returns a top-level string of a valid JSON text, or "". Of a name that
// comes twice, "type" is the first and "id" the last.
func member(line []byte, name string) (value string) {
	dec := json.NewDecoder(bytes.NewReader(line))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return ""
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return ""
		}
		var raw json.RawMessage
		if dec.Decode(&raw) != nil {
			return ""
		}
		if key != name {
			continue
		}
		value = ""
		if strings.HasPrefix(string(raw), `"`) {
			json.Unmarshal(raw, &value)
		}
		if name == "type" {
			return value
		}
	}
	return value
}

// pieces is a reader that returns at most n bytes at a time.
type pieces struct {
	rest []byte
	n    int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.n)], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}
