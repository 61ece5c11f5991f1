package scripted

import "testing"

// In-package: sizes are set, so that no test has to send hundreds of MiB.
func TestHistoryBoundsBytes(t *testing.T) {
	var h history
	for i, size := range []int{30 << 20, 30 << 20, 30 << 20, 100 << 20, 1} {
		if got := h.add(Request{size: size}); got != i {
			t.Errorf("request %d is counted as %d", i, got)
		}
		want := []int{1, 2, 2, 1, 1}[i]
		if got := len(h.all()); got != want {
			t.Errorf("%d kept after request %d, want %d", got, i, want)
		}
	}
}
