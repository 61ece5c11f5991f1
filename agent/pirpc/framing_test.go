package pirpc_test

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/agent/pirpc"
)

// F01: U+2028 is raw inside a string and no end of a record, wherever the bytes
// happen to be split.
func TestF01SplitAtEveryByte(t *testing.T) {
	const first = `{"type":"message_end","message":{"role":"user","content":"a` + "\u2028b\u2029\u0085" + `c"}}`
	const second = `{"type":"agent_settled","aborted":false}`
	const out = first + "\n" + second + "\n"
	check := func(name string, r io.Reader) {
		t.Helper()
		records, _ := listen(t, r, pirpc.Config{})
		if diff := cmp.Diff([]string{first, second}, raws(records)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for i := range len(out) + 1 {
		check(fmt.Sprint("split at ", i), io.MultiReader(strings.NewReader(out[:i]), strings.NewReader(out[i:])))
	}
	check("every byte alone", iotest.OneByteReader(strings.NewReader(out)))
	check("the end with the last bytes", iotest.DataErrReader(strings.NewReader(out)))
}

func TestLines(t *testing.T) {
	for name, tc := range map[string]struct {
		out     string
		types   []string
		invalid int64
	}{
		"nothing":             {"", nil, 0},
		"crlf":                {"{\"type\":\"a\"}\r\n{\"type\":\"b\"}\r\n", []string{"a", "b"}, 0},
		"empty lines":         {"\n\r\n{\"type\":\"a\"}\n\n", []string{"a"}, 0},
		"no last line end":    {"{\"type\":\"a\"}\n{\"type\":\"b\"}", []string{"a", "b"}, 0},
		"killed in a line":    {"{\"type\":\"a\"}\n{\"type\":\"b\",\"x", []string{"a"}, 0},
		"killed in garbage":   {"{\"type\":\"a\"}\ngarb", []string{"a"}, 0},
		"garbage":             {"Warning: x\n{\"type\":\"a\"}\n", []string{"", "a"}, 1},
		"half a record":       {"{\"type\":\"a\",\"x\n{\"type\":\"b\"}\n", []string{"", "b"}, 1},
		"two on a line":       {"{\"type\":\"a\"}{\"type\":\"b\"}\n", []string{""}, 1},
		"no object":           {"[]\n7\nnull\n\"type\"\n", []string{"", "", "", ""}, 4},
		"no type":             {"{}\n{\"type\":7}\n{\"type\":null}\n{\"x\":{\"type\":\"a\"}}\n", []string{"", "", "", ""}, 4},
		"type further behind": {"{\"x\":{\"type\":\"a\"},\"y\":[1,\"]}\\\"\"],\"type\":\"b\"}\n", []string{"b"}, 0},
		"spaces":              {" { \"type\" : \"a\" , \"x\" : 1 } \n", []string{"a"}, 0},
		"escapes":             {"{\"t\\u0079pe\":\"\\u0061\"}\n", []string{"a"}, 0},
		"deltas": {"{\"type\":\"message_update\",\"usage\":{}}\n{\"type\":\"tool_execution_update\"}\n" +
			"{\"usage\":{},\"type\":\"message_update\"}\n{ \"type\": \"message_update\"}\n", nil, 0},
		"like deltas": {"{\"type\":\"message_updated\"}\n{\"type\":\"x\",\"y\":\"message_update\"}\n", []string{"message_updated", "x"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tc.out), iotest.OneByteReader(strings.NewReader(tc.out))} {
				records, client := listen(t, r, pirpc.Config{})
				if diff := cmp.Diff(tc.types, types(records)); diff != "" {
					t.Error(diff)
				}
				if n := client.Invalid(); n != tc.invalid {
					t.Errorf("%d invalid lines, want %d", n, tc.invalid)
				}
			}
		})
	}
}

// Long records at, just above and far above the limit, in one piece and in
// many, below and above the size of a read.
func TestLongRecords(t *testing.T) {
	for _, max := range []int{100, 1 << 16, 200_000} {
		for _, size := range []int{max - 1, max, max + 1, max + 2, 3 * max} {
			for _, end := range []string{"\n", "\r\n"} {
				const head, tail = `{"type":"agent_end","x":"`, `"}`
				long := head + strings.Repeat("x", size-len(head)-len(tail)) + tail
				out := long + end + `{"type":"agent_settled"}` + "\n"
				for _, r := range []io.Reader{strings.NewReader(out), iotest.HalfReader(strings.NewReader(out))} {
					records, _ := listen(t, r, pirpc.Config{MaxRecord: max})
					want := []string{long[:min(size, max)], `{"type":"agent_settled"}`}
					if !slices.Equal(raws(records), want) || records[0].Type != "agent_end" || records[0].Cut != (size > max) {
						t.Errorf("max %d, size %d, end %q: %d records", max, size, end, len(records))
					}
				}
			}
		}
	}
}

// What a record is must be known although its end, and even the type itself,
// lies behind the limit or is missing.
func TestLongAndStrange(t *testing.T) {
	fill := strings.Repeat("x", 5000)
	for name, tc := range map[string]struct {
		line string
		want string
		id   string
	}{
		"garbage":              {fill, "", ""},
		"type behind the cut":  {`{"x":"` + fill + `","type":"a"}`, "", ""},
		"type before the cut":  {`{"id":"7","x":[1,{}],"type":"a","y":"` + fill + `"}`, "a", "7"},
		"id behind the cut":    {`{"type":"a","y":"` + fill + `","id":"7"}`, "a", ""},
		"a type that is cut":   {`{"type":"` + fill + `"}`, "", ""},
		"a number that is cut": {`{"type":"a","n":` + strings.Repeat("1", 5000) + `}`, "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			records, _ := listen(t, strings.NewReader(tc.line+"\n"), pirpc.Config{MaxRecord: 1000})
			want := []pirpc.Record{{Type: tc.want, ID: tc.id, Raw: []byte(tc.line[:1000]), Cut: true}}
			if diff := cmp.Diff(want, records); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLongAnswer(t *testing.T) {
	fill := strings.Repeat("x", 300_000)
	answers := func(max int) (got pirpc.Response) {
		talk(t, pirpc.Config{MaxRecord: max}, func(t *testing.T, p *fakePi) {
			if err := p.Send("get_last_assistant_text", nil, func(r pirpc.Response) { got = r }); err != nil {
				t.Fatal(err)
			}
			p.reads()
			p.says(`{"id":"1","type":"response","command":"get_last_assistant_text","success":true,"data":{"text":"`+fill+`"}}`,
				`{"type":"x","y":"`+strings.Repeat("y", 300_000)+`"}`) // must not overwrite the data
			p.want("x")
		})
		return got
	}
	if r := answers(1 << 20); r.Err != nil || string(r.Data) != `{"text":"`+fill+`"}` {
		t.Errorf("below the limit: %v, %d bytes", r.Err, len(r.Data))
	}
	if r := answers(1 << 10); r.Err != pirpc.ErrTooLong || !r.Success || r.Command != "get_last_assistant_text" || r.Data != nil {
		t.Errorf("above the limit: %+v", r)
	}
}

func TestWant(t *testing.T) {
	const out = `{"type":"agent_start"}
{"type":"message_update","n":1}
garbage
{"type":"agent_settled"}
{"type":"turn_end","never":"closed
`
	want := func(typ string) bool { return typ == "agent_settled" || typ == "message_update" }
	records, _ := listen(t, strings.NewReader(out), pirpc.Config{Want: want})
	if diff := cmp.Diff([]string{"message_update", "", "agent_settled"}, types(records)); diff != "" {
		t.Error(diff)
	}
}

// The log has every byte, whatever becomes of it, and has a record before On
// does.
func TestLog(t *testing.T) {
	const out = "garbage\r\n\n{\"type\":\"message_update\"}\n{\"type\":\"agent_end\",\"x\":\"yyyyyyyyyyyyyyyyyyyy\"}\nhalf"
	var log bytes.Buffer
	cfg := pirpc.Config{Log: &log, MaxRecord: 30, On: func(r pirpc.Record) {
		if !bytes.Contains(log.Bytes(), r.Raw) {
			t.Errorf("%q is not in the log yet", r.Raw)
		}
	}}
	cfg.In, cfg.Out = nopCloser{io.Discard}, iotest.OneByteReader(strings.NewReader(out))
	<-pirpc.New(cfg).Done()
	if log.String() != out {
		t.Errorf("log = %q", log.String())
	}
}

func TestBrokenLog(t *testing.T) {
	r, w := io.Pipe()
	r.Close() // every write to w fails
	records, _ := listen(t, strings.NewReader("{\"type\":\"a\"}\n"), pirpc.Config{Log: w})
	if diff := cmp.Diff([]string{"a"}, types(records)); diff != "" {
		t.Error(diff)
	}
}

func types(records []pirpc.Record) (list []string) {
	for _, r := range records {
		list = append(list, r.Type)
	}
	return list
}

func raws(records []pirpc.Record) (list []string) {
	for _, r := range records {
		list = append(list, string(r.Raw))
	}
	return list
}
