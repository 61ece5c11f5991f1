package pirpc_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pi-mcp/agent/pirpc"
)

// BenchmarkRead reads what a busy agent prints, nineteen twentieths of it
// deltas, and logs it to a file. The target is 300 MB/s on one core.
func BenchmarkRead(b *testing.B) {
	log, err := os.Create(filepath.Join(b.TempDir(), "stdout.log"))
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	out := recording(32 << 20)
	b.SetBytes(int64(len(out)))
	b.ReportAllocs()
	for b.Loop() {
		log.Truncate(0)
		log.Seek(0, io.SeekStart)
		settled := 0
		cfg := pirpc.Config{In: nopCloser{io.Discard}, Out: bytes.NewReader(out), Log: log}
		cfg.On = func(r pirpc.Record) { settled += len(r.Type) }
		<-pirpc.New(cfg).Done()
		if settled == 0 {
			b.Fatal("nothing arrived")
		}
	}
	b.ReportMetric(300, "target-MB/s")
}

// BenchmarkLongRecord reads the records that are kept whole.
func BenchmarkLongRecord(b *testing.B) {
	out := []byte(`{"type":"agent_end","messages":[{"role":"user","content":"` + strings.Repeat("x", 3<<20) + `"}]}` + "\n")
	b.SetBytes(int64(len(out)))
	b.ReportAllocs()
	for b.Loop() {
		<-pirpc.New(pirpc.Config{In: nopCloser{io.Discard}, Out: bytes.NewReader(out)}).Done()
	}
}

// BenchmarkCall is one question and its answer, without a pi's own time.
func BenchmarkCall(b *testing.B) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	go func() {
		for id, buf := 1, make([]byte, 4096); ; id++ {
			if _, err := inR.Read(buf); err != nil {
				outW.Close()
				return
			}
			fmt.Fprintf(outW, `{"id":"%d","type":"response","command":"get_state","success":true,"data":{}}`+"\n", id)
		}
	}()
	c := pirpc.New(pirpc.Config{In: inW, Out: outR})
	b.ReportAllocs()
	for b.Loop() {
		if err := c.Call(b.Context(), "get_state", nil, nil); err != nil {
			b.Fatal(err)
		}
	}
	c.CloseInput()
	<-c.Done()
}

// recording makes about n bytes in the shape of pi's own output.
func recording(n int) []byte {
	const usage = `{"input":10,"output":5,"cacheRead":0,"cacheWrite":0,"reasoning":0,"totalTokens":15,` +
		`"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0,"totalFromProvider":false}}`
	var out bytes.Buffer
	for out.Len() < n {
		answer := strings.Repeat("word and ", 250)
		fmt.Fprintf(&out, `{"type":"agent_start"}`+"\n")
		for w := range 150 {
			fmt.Fprintf(&out, `{"type":"message_update","usage":%s,"assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"word %d "}}`+"\n", usage, w)
		}
		fmt.Fprintf(&out, `{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":%q}],"usage":%s}}`+"\n", answer, usage)
		fmt.Fprintf(&out, `{"type":"agent_settled","aborted":false}`+"\n")
	}
	return out.Bytes()
}
