package cage

import "testing"

// StartTime is startTime for tests of processes that are not cages.
func StartTime(t *testing.T, pid int) uint64 {
	t.Helper()
	start, err := startTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	return start
}

// WithoutLandlock has b make cages as on a kernel that has no Landlock.
func WithoutLandlock(b *Bwrap) { b.landlock = 0 }
