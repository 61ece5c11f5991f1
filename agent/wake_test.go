package agent

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"pi-mcp/store"
)

// bare makes a live agent that has a loop and no process. Tests move it by hand.
func bare(t testing.TB, sup *Supervisor, s State) *liveAgent {
	t.Helper()
	row := store.Agent{
		ID: uuid.Must(uuid.NewV7()).String(), Group: "g", State: string(s), Living: true, Owner: sup.cfg.Store.Owner(),
		Created: time.Now(), Updated: time.Now(), LastActivity: time.Now(),
	}
	if err := sup.cfg.Store.Insert(t.Context(), row, 0); err != nil {
		t.Fatal(err)
	}
	a := newLive(sup, row)
	if err := sup.enlist(a); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.tell(func() { a.over = true }) }) // before the supervisor's
	return a
}

// settle ends a run, and returns when that is stored.
func (a *liveAgent) settle() {
	stored := make(chan struct{})
	a.tell(func() {
		defer close(stored)
		a.row.SettleCount++
		a.move(Settle)
		a.move(Prompt)
	})
	<-stored
}

// A settle in the moment in which somebody begins to wait for it is not missed:
// there is no second one that would wake him.
func TestNoWakeIsLost(t *testing.T) {
	sup := bareSupervisor(t)
	agents := []*liveAgent{bare(t, sup, Active), bare(t, sup, Active)}
	ids := []string{agents[0].id, agents[1].id}
	for n := range int64(40) {
		var all sync.WaitGroup
		for i := range 8 {
			until := []Until{Any, All}[i%2]
			all.Go(func() {
				res, err := sup.Wait(t.Context(), Caller{Group: "g"}, WaitRequest{
					IDs: ids, Until: until, After: map[string]int64{ids[0]: n, ids[1]: n}, Timeout: time.Minute,
				})
				if err != nil || !res.Done {
					t.Errorf("round %d, until %s: %+v, %v", n, until, res, err)
				}
			})
		}
		for _, a := range agents {
			all.Go(a.settle)
		}
		all.Wait()
		if n := sup.Waiting(); n > 0 {
			t.Fatalf("%d agents are still waited for", n)
		}
	}
}

// BenchmarkWake is from a settle, before it is stored, to the return of a wait for
// it, at the median. Target: 5 ms.
func BenchmarkWake(b *testing.B) {
	sup := bareSupervisor(b)
	a := bare(b, sup, Active)
	var took []time.Duration
	for n := int64(0); b.Loop(); n++ {
		began := make(chan time.Time, 1)
		req := WaitRequest{IDs: []string{a.id}, After: map[string]int64{a.id: n}, Timeout: time.Hour}
		beat := make(chan time.Time, 1)
		beat <- time.Time{}
		req.Beat, req.Tell = beat, func(int, int) { // it has looked, and waits
			go func() {
				began <- time.Now()
				a.settle()
			}()
		}
		if _, err := sup.Wait(b.Context(), Caller{Group: "g"}, req); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(<-began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "wake-ms")
	b.ReportMetric(5, "target-ms")
}

// BenchmarkWaiters is what a wait takes while nothing happens, beside what it was
// called with: 1,000 of them, each for the same 100 agents, stacks included.
// Target: 20,000 bytes.
func BenchmarkWaiters(b *testing.B) {
	const waits = 1000
	sup := bareSupervisor(b)
	var ids []string
	for range 100 {
		ids = append(ids, bare(b, sup, Active).id)
	}
	var each float64
	for n := int64(0); b.Loop(); n++ {
		var all, looked sync.WaitGroup
		looked.Add(waits)
		reqs := make([]WaitRequest, waits)
		for i := range reqs {
			beat := make(chan time.Time, 1)
			beat <- time.Time{}
			reqs[i] = WaitRequest{
				IDs: slices.Clone(ids), After: map[string]int64{ids[0]: n}, Timeout: time.Hour,
				Beat: beat, Tell: func(int, int) { looked.Done() },
			}
		}
		before := inUse()
		for _, req := range reqs {
			all.Go(func() {
				res, err := sup.Wait(b.Context(), Caller{Group: "g"}, req)
				if err != nil || !res.Done {
					b.Errorf("%v, %v", res.Done, err)
				}
			})
		}
		looked.Wait()
		each = (inUse() - before) / waits
		sup.find(ids[0]).settle()
		all.Wait()
	}
	b.ReportMetric(each, "B/wait")
	b.ReportMetric(20_000, "target-B")
}

// inUse is what heap and stacks take. A stack shrinks by half with each collection.
func inUse() float64 {
	for range 5 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
