package cage_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

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
	bwrap := open(b)
	for b.Loop() {
		ready(b, bwrap, cage.Spec{})
	}
}

// BenchmarkRules600 is what 600 rules, half of them directories, add to that: each cage
// has an empty one beside it. Target: 0.5 s at the median.
func BenchmarkRules600(b *testing.B) {
	names := make([]string, 0, 600)
	for i := range 300 {
		names = append(names, fmt.Sprintf("w/f%d", i), fmt.Sprintf("w/d%d/", i))
	}
	g := cage.Grants{Write: []string{"w"}, Denied: names}
	bwrap, spec := open(b), cage.Spec{Grants: resolve(b, under(tree(b, names...), g))}
	var empty, full []time.Duration
	for b.Loop() {
		empty = append(empty, ready(b, bwrap, cage.Spec{}))
		full = append(full, ready(b, bwrap, spec))
	}
	b.ReportMetric(ms(median(empty)), "empty-ms")
	b.ReportMetric(ms(median(full)-median(empty)), "ms-above-empty")
	b.ReportMetric(500, "target-ms")
}

// ready returns how long a cage took to be ready, after its end, which b does not count.
func ready(b *testing.B, bwrap *cage.Bwrap, spec cage.Spec) time.Duration {
	b.Helper()
	began := time.Now()
	p, err := bwrap.Start(b.Context(), spec, []string{"/bin/cat"})
	took := time.Since(began)
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
	return took
}

func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
