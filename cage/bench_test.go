package cage_test

import (
	"fmt"
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

// BenchmarkReady is the time from Start until every mount is verified and the program
// has been executed.
func BenchmarkReady(b *testing.B) {
	ready(b, cage.Spec{})
}

// BenchmarkRules600 is the same with 600 rules, half of them directories, to be compared
// with an empty cage.
func BenchmarkRules600(b *testing.B) {
	names := make([]string, 0, 600)
	for i := range 300 {
		names = append(names, fmt.Sprintf("w/f%d", i), fmt.Sprintf("w/d%d/", i))
	}
	g := cage.Grants{Write: []string{"w"}, Denied: names}
	ready(b, cage.Spec{Grants: resolve(b, under(tree(b, names...), g))})
}

func ready(b *testing.B, spec cage.Spec) {
	bwrap := open(b)
	for b.Loop() {
		p, err := bwrap.Start(b.Context(), spec, []string{"/bin/cat"})
		if err != nil {
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
