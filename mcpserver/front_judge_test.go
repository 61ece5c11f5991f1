package mcpserver

import (
	"encoding/json"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// refusals are lines that would end the SDK's session, or leave the client
// without an answer, with what is answered instead.
var refusals = map[string]struct {
	line string
	id   string
	code int64
}{
	"no JSON":                 {`hello`, "null", -32700},
	"cut off":                 {`{"jsonrpc":"2.0","id":1,"method":"ping"`, "null", -32700},
	"trailing bytes":          {`{"jsonrpc":"2.0","id":1,"method":"ping"} x`, "null", -32700},
	"two messages":            {ping("1") + ping("2"), "null", -32700},
	"control characters":      {"\x00\x01", "null", -32700},
	"number":                  {`5`, "null", -32600},
	"string":                  {`"ping"`, "null", -32600},
	"null":                    {`null`, "null", -32600},
	"empty batch":             {`[]`, "null", -32600},
	"batch":                   {`[` + ping("1") + `]`, "null", -32600},
	"empty object":            {`{}`, "null", -32600},
	"no version":              {`{"id":1,"method":"ping"}`, "1", -32600},
	"old version":             {`{"jsonrpc":"1.0","id":"a","method":"ping"}`, `"a"`, -32600},
	"long version":            {`{"jsonrpc":"` + strings.Repeat("é", 9999) + `","id":1,"method":"ping"}`, "1", -32600},
	"version in capitals":     {`{"JSONRPC":"2.0","id":1,"method":"ping"}`, "1", -32600},
	"method is a number":      {`{"jsonrpc":"2.0","id":1,"method":5}`, "1", -32600},
	"id is an object":         {`{"jsonrpc":"2.0","id":{},"method":"ping"}`, "null", -32600},
	"id is true":              {`{"jsonrpc":"2.0","id":true,"method":"ping"}`, "null", -32600},
	"id is null":              {`{"jsonrpc":"2.0","id":null,"method":"ping"}`, "null", -32600},
	"id is a fraction":        {ping("1.5"), "1.5", -32600},
	"id is 2^53":              {ping("9007199254740992"), "9007199254740992", -32600},
	"id is huge":              {ping("1e300"), "1e300", -32600},
	"id is over float64":      {ping("1e999"), "1e999", -32600},
	"deep":                    {`{"jsonrpc":"2.0","id":1,"method":"ping","params":` + nested(1200) + `}`, "1", -32600},
	"neither":                 {`{"jsonrpc":"2.0","id":1}`, "null", -32600},
	"answer with a text":      {`{"jsonrpc":"2.0","id":1,"error":"no"}`, "null", -32600},
	"answer without an id":    {`{"jsonrpc":"2.0","result":{}}`, "null", -32600},
	"long id of a bad method": {`{"jsonrpc":"2.0","id":"` + strings.Repeat("a", 1000) + `","method":5}`, "null", -32600},
}

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func TestFrontRefusesAndGoesOn(t *testing.T) {
	for name, test := range refusals {
		t.Run(name, func(t *testing.T) {
			c := startTalk(t, osPipe, time.Minute, nil)
			c.send(test.line)
			if r := c.expect(test.id, test.code); r.Error.Message == "" || len(r.Error.Message) > maxReason {
				t.Errorf("refused with %q", r.Error.Message)
			}
			c.send(ping("99"))
			c.expect("99", 0)
			c.finish()
		})
	}
}

// The controls: odd, but sound.
func TestFrontTakes(t *testing.T) {
	for name, test := range map[string]struct{ line, id string }{
		"white space":             {" \t" + ping("1") + " \r", "1"},
		"blank lines":             {"\n\r\n  \n" + ping("1"), "1"},
		"large id":                {ping("9007199254740991"), "9007199254740991"},
		"negative id":             {ping("-3"), "-3"},
		"integer as a float":      {ping("4.0"), "4"},
		"empty string as id":      {ping(`""`), `""`},
		"escapes in the id":       {ping(`"\u00e9\n"`), `"é\n"`},
		"raw U+2028":              {ping(`"` + "\u2028" + `"`), `"\u2028"`},
		"answer to nothing":       {`{"jsonrpc":"2.0","id":55,"result":{}}` + "\n" + ping("1"), "1"},
		"notification, id null":   {`{"jsonrpc":"2.0","id":null,"method":"notifications/x"}` + "\n" + ping("1"), "1"},
		"unknown notification":    {`{"jsonrpc":"2.0","method":"notifications/x"}` + "\n" + ping("1"), "1"},
		"members that nobody has": {`{"jsonrpc":"2.0","id":1,"method":"ping","extra":[1]}`, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			c := startTalk(t, osPipe, time.Minute, nil)
			c.send(test.line)
			c.expect(test.id, 0)
			c.finish()
		})
	}
}

// Whatever the line, it is either fit for the SDK's decoder or refused with a
// line that is one message.
func FuzzFrontJudge(f *testing.F) {
	for _, test := range refusals {
		if len(test.line) < 200 { // the fuzzer takes minutes to shorten a long one
			f.Add(test.line)
		}
	}
	f.Add(ping("1"))
	f.Fuzz(func(t *testing.T, text string) {
		line, err := newLines(strings.NewReader(text)).next()
		if err != nil {
			return
		}
		msg, no := judge(line)
		if (msg == nil) == (no == nil) {
			t.Fatalf("message %v and refusal %v", msg, no)
		}
		if no == nil {
			if _, err := jsonrpc.DecodeMessage(line); err != nil {
				t.Fatalf("passed on, but %v", err)
			}
			return
		}
		if reply := no.line(); !json.Valid(reply) || strings.ContainsRune(string(reply), '\n') {
			t.Fatalf("refused with %q", reply)
		}
	})
}

// slowA reads as n letters, a newline, and a message.
type slowA struct {
	n    int
	rest io.Reader
}

func (s *slowA) Read(p []byte) (int, error) {
	if s.n == 0 {
		return s.rest.Read(p)
	}
	n := min(len(p), s.n)
	s.n -= n
	clear(p[:n])
	return n, nil
}

func TestFrontLongLineBoundedMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	l := newLines(&slowA{1 << 30, strings.NewReader("\n" + ping("1"))})
	if _, err := l.next(); err != errTooLong {
		t.Fatalf("error %v, want %v", err, errTooLong)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 8*maxFrame {
		t.Errorf("%d bytes were allocated for a line of 1 GiB", got)
	}
	if line, err := l.next(); string(line) != ping("1") || err != nil {
		t.Errorf("then %q, %v", line, err)
	}
	if line, err := l.next(); line != nil || err != io.EOF {
		t.Errorf("at the end %q, %v", line, err)
	}
}

func TestFrontLongLastLine(t *testing.T) {
	l := newLines(&slowA{maxFrame + 1, strings.NewReader("")})
	if _, err := l.next(); err != errTooLong {
		t.Fatalf("error %v, want %v", err, errTooLong)
	}
	if _, err := l.next(); err != io.EOF {
		t.Errorf("then %v, want the end", err)
	}
}
