package scripted

import (
	"slices"
	"sync"
)

const (
	maxKept      = 256
	maxKeptBytes = 64 << 20 // by the size of the bodies
)

// history keeps the latest requests. The zero value is empty and ready.
type history struct {
	mu    sync.Mutex // protects the fields below
	kept  []Request
	bytes int
	count int
}

// add records r and returns how many requests came before it. The newest one
// is kept whatever its size.
func (h *history) add(r Request) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, r)
	h.bytes += r.size
	for len(h.kept) > 1 && (len(h.kept) > maxKept || h.bytes > maxKeptBytes) {
		h.bytes -= h.kept[0].size
		h.kept = slices.Delete(h.kept, 0, 1)
	}
	h.count++
	return h.count - 1
}

func (h *history) all() []Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.kept)
}
