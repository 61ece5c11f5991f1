package pirpc_test

import (
	"io"
	"runtime"
	"strings"
	"testing"

	"pi-mcp/agent/pirpc"
)

// One agent may cost 8 MiB, whatever it prints. Counted is everything that is
// ever allocated for one line, which is an upper bound of what is in use.
func TestMemoryOfALongLine(t *testing.T) {
	const size, limit = 256 << 20, 8 << 20
	for name, head := range map[string]string{
		"delta":       `{"type":"message_update","x":"`,
		"event":       `{"type":"agent_end","x":"`,
		"response":    `{"id":"1","type":"response","command":"get_state","success":true,"data":"`,
		"dialog":      `{"type":"extension_ui_request","id":"1","method":"editor","prefill":"`,
		"no type":     `{"x":"`,
		"no json":     ``,
		"brackets":    `{"type":"agent_end","x":` + strings.Repeat("[", 1000),
		"backslashes": `{"type":"agent_end","x":"` + strings.Repeat(`\"`, 1000),
	} {
		t.Run(name, func(t *testing.T) {
			out := io.MultiReader(strings.NewReader(head), io.LimitReader(letters{}, size), strings.NewReader("\n"))
			used := allocated(func() {
				<-pirpc.New(pirpc.Config{In: nopCloser{io.Discard}, Out: out}).Done()
			})
			if used > limit {
				t.Errorf("%d bytes", used)
			}
		})
	}
}

// A whole answer just below the limit is handed on without a copy.
func TestMemoryOfALongAnswer(t *testing.T) {
	const size, limit = 4<<20 - 1000, 8 << 20
	talk(t, pirpc.Config{}, func(t *testing.T, p *fakePi) {
		var n int
		if err := p.Send("get_messages", nil, func(r pirpc.Response) { n = len(r.Data) }); err != nil {
			t.Fatal(err)
		}
		p.reads()
		used := allocated(func() {
			io.WriteString(p.out, `{"id":"1","type":"response","command":"get_messages","success":true,"data":"`)
			io.CopyN(p.out, letters{}, size)
			p.says(`"}`)
		})
		if n != size+2 || used > limit {
			t.Errorf("an answer of %d bytes took %d", n, used)
		}
	})
}

// allocated returns the bytes that were allocated while f ran.
func allocated(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

var block = strings.Repeat("x", 1<<16)

// letters is an endless line.
type letters struct{}

func (letters) Read(b []byte) (int, error) {
	for n := 0; n < len(b); {
		n += copy(b[n:], block)
	}
	return len(b), nil
}
