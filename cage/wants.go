package cage

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"pi-mcp/cage/cageinit"
)

// A want is a mount as it must be found from inside the cage.
type want struct {
	target   string
	same     input // what must be there; the zero input if it is made by bubblewrap
	number   int   // of same among the plan's inputs, or -1: it is not handed over
	readOnly bool
	masked   bool // nothing of it may be readable
}

// expect takes note of a want. A later mount at the same target is the one to see.
func (p *plan) expect(w want) {
	if i, ok := p.wanted[w.target]; ok {
		p.wants[i] = w
		return
	}
	p.wanted[w.target] = len(p.wants)
	p.wants = append(p.wants, w)
}

// checks turns the wants into what the first process of the cage compares with. The
// files are the plan's inputs as they are handed over.
func (p *plan) checks(files []*os.File) ([]cageinit.Check, error) {
	all := make([]cageinit.Check, 0, len(p.wants))
	for _, w := range p.wants {
		c := cageinit.Check{Path: cageinit.Raw(w.target), ReadOnly: w.readOnly, Masked: w.masked}
		if w.same != (input{}) {
			stat, err := w.stat(files)
			if err != nil {
				return nil, fmt.Errorf("cannot look at %s for the cage: %w", w.same, err)
			}
			c.Dev, c.Ino = stat.Dev, stat.Ino
		}
		all = append(all, c)
	}
	return all, nil
}

func (w want) stat(files []*os.File) (stat unix.Stat_t, err error) {
	if w.number >= 0 {
		return stat, unix.Fstat(int(files[w.number].Fd()), &stat)
	}
	f, err := w.same.openPath()
	if err != nil {
		return stat, err
	}
	defer f.Close()
	return stat, unix.Fstat(int(f.Fd()), &stat)
}
