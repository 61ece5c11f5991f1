package cage

import (
	"context"
	"slices"
	"sync"
)

// A gate keeps starts apart that could disturb each other: while bubblewrap mounts
// something inside a directory, no program may begin to run that can write there,
// and could put a symlink in the way. The zero gate is open.
type gate struct {
	mu     sync.Mutex // protects the fields below
	inside []*passage
	left   chan struct{} // closed when one leaves; nil if nobody waits
}

// A passage is a start on its way.
type passage struct {
	writes []string // what its program will be able to write
	nests  []string // those of writes that have mounts inside
}

// enter waits until no start in the way is under way, be it this server's or another's
// of the same state directory. leave must be called.
func (b *Bwrap) enter(ctx context.Context, grants Grants) (leave func(), err error) {
	p := newPassage(grants)
	pass, err := b.gate.enter(ctx, p)
	if err != nil {
		return nil, err
	}
	out, err := b.door.enter(ctx, p)
	if err != nil {
		pass()
		return nil, err
	}
	return func() { out(); pass() }, nil
}

// enter waits until no start in the way is under way. leave must be called.
func (g *gate) enter(ctx context.Context, p *passage) (leave func(), err error) {
	for {
		left := g.try(p)
		if left == nil {
			return func() { g.leave(p) }, nil
		}
		select {
		case <-left:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// try lets p in and returns nil, or returns what is closed when it may try again.
func (g *gate) try(p *passage) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.ContainsFunc(g.inside, p.disturbs) {
		g.inside = append(g.inside, p)
		return nil
	}
	if g.left == nil {
		g.left = make(chan struct{})
	}
	return g.left
}

func (g *gate) leave(p *passage) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.inside, p)
	g.inside = slices.Delete(g.inside, i, i+1)
	if g.left != nil {
		close(g.left)
		g.left = nil
	}
}

func newPassage(g Grants) *passage {
	p := &passage{writes: g.Write}
	for _, w := range g.Write {
		if slices.ContainsFunc(g.rules(), func(r rule) bool { return below(w, r.path) }) {
			p.nests = append(p.nests, w)
		}
	}
	return p
}

// disturbs reports whether p and q must not be under way at the same time.
func (p *passage) disturbs(q *passage) bool {
	return overlap(p.nests, q.writes) || overlap(q.nests, p.writes)
}

func overlap(as, bs []string) bool {
	return slices.ContainsFunc(as, func(a string) bool {
		return slices.ContainsFunc(bs, func(b string) bool { return covers(a, b) || covers(b, a) })
	})
}
