package cage_test

import (
	"testing"

	"pi-mcp/cage"
)

// BenchmarkRun makes an empty cage, runs nothing in it and sees it to its end.
func BenchmarkRun(b *testing.B) {
	bwrap := open(b)
	for b.Loop() {
		r, err := bwrap.Run(b.Context(), cage.Spec{}, []string{"/bin/true"}, cage.Limits{})
		if err != nil || r.Exit.Code != 0 {
			b.Fatal(r.Exit, err)
		}
	}
}

// BenchmarkFirstByte is the time from Start to the program's first byte.
func BenchmarkFirstByte(b *testing.B) {
	bwrap := open(b)
	one := make([]byte, 1)
	for b.Loop() {
		p, err := bwrap.Start(cage.Spec{}, []string{"/bin/echo"})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Out.Read(one); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		p.Kill()
		<-p.Done()
		p.In.Close()
		p.Out.Close()
		p.Stderr.Close()
		b.StartTimer()
	}
}
