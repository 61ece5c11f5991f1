package cage_test

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pi-mcp/cage"
)

const idleCages = 50

// idleFor is how long the idle cages are watched; the kernel counts CPU time in steps
// that are much smaller.
const idleFor = 3 * time.Second

// BenchmarkIdle is what 50 cages cost whose programs sleep: goroutines and threads of
// this process for each, and its CPU time in percent of one core.
func BenchmarkIdle(b *testing.B) {
	bwrap := open(b)
	for b.Loop() {
		goroutines, threads := runtime.NumGoroutine(), threadCount(b)
		var all []*cage.Proc
		for range idleCages {
			p, err := bwrap.Start(b.Context(), cage.Spec{Listen: []string{"127.0.0.1:17017"}}, []string{"/bin/sleep", "1000"})
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, p)
		}
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/idleCages, "goroutines/cage")
		b.ReportMetric(float64(threadCount(b)-threads), "threads")
		before := cpuTime(b)
		time.Sleep(idleFor)
		b.ReportMetric(100*float64(cpuTime(b)-before)/float64(idleFor), "%cpu")
		for _, p := range all {
			p.Kill()
		}
		for _, p := range all {
			<-p.Done()
			p.In.Close()
			p.Out.Close()
			p.Stderr.Close()
		}
	}
}

// TestNoThreadForACage: what waits for cages waits in the poller.
func TestNoThreadForACage(t *testing.T) {
	bwrap := open(t)
	start := func(n int) (all []*cage.Proc) {
		for range n {
			p, err := bwrap.Start(t.Context(), cage.Spec{}, []string{"/bin/sleep", "1000"})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
			t.Cleanup(func() {
				p.Kill()
				<-p.Done()
				p.In.Close()
				p.Out.Close()
				p.Stderr.Close()
			})
		}
		return all
	}
	start(1) // what comes once
	goroutines, threads := runtime.NumGoroutine(), threadCount(t)
	const n = 20
	start(n)
	if more := runtime.NumGoroutine() - goroutines; more > 4*n {
		t.Errorf("%d cages take %d goroutines", n, more)
	}
	// Other tests and the runtime itself take some; one for each cage would be n.
	if more := threadCount(t) - threads; more >= n/2 {
		t.Errorf("%d cages take %d threads", n, more)
	}
}

// threadCount is how many threads this process has.
func threadCount(t testing.TB) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nThreads:")
	n, err := strconv.Atoi(strings.TrimSpace(rest[:strings.IndexByte(rest, '\n')]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// cpuTime is the CPU time of this process.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
