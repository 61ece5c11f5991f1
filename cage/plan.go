package cage

import (
	"fmt"
	"path/filepath"
	"strconv"

	"pi-mcp/cage/cageinit"
)

// The numbers of bubblewrap's descriptors after its three streams and before and
// after the control socket, which it passes on to the first process of the cage.
const (
	argsFD   = 3
	statusFD = 4
	filterFD = cageinit.ControlFD + 1
	firstFD  = filterFD + 1 // the first input of the plan
)

// maxMounts bounds the mounts of a cage's binds and grants. bubblewrap reads the
// whole mount table for each: 500 took 2 s and 1000 took 4 s, 2000 took 17.
const maxMounts = 1000

// A plan is everything that bubblewrap is told. Making one touches nothing.
type plan struct {
	args   []string
	inputs []input // what the numbers in args stand for, from firstFD on
	points []input // what must exist before the start, and is not handed over
	wants  []want  // what must be found from inside

	host    host
	wanted  map[string]int   // index into wants, by target
	mounted map[string]mount // by target
	mounts  int              // for binds and grants
}

// plan returns what makes the cage of s on h.
func (s Spec) plan(h host) (*plan, error) {
	p := &plan{host: h, wanted: make(map[string]int), mounted: make(map[string]mount)}
	p.isolate(s.Network)
	p.root(s)
	mounts, err := s.mounts(h)
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		if err := p.place(m); err != nil {
			return nil, err
		}
		if p.mounts > maxMounts {
			return nil, fmt.Errorf("cannot make a cage with more than %d mounts: "+
				"grant or deny whole directories instead of what is in them", maxMounts)
		}
	}
	p.spell(s)
	// After this no mount point can be made, so it comes last.
	p.add("--remount-ro", "/", "--chdir", "/")
	p.expect(want{target: "/", number: -1, readOnly: true})
	return p, nil
}

// isolate leaves out nothing that bubblewrap can separate. Root keeps its
// capabilities unless they are dropped by name, and could unmount a mask.
func (p *plan) isolate(network bool) {
	p.add("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts")
	p.addIf("--unshare-cgroup-try")
	if !network {
		p.add("--unshare-net")
	}
	p.addIf("--disable-userns")
	p.add("--uid", strconv.Itoa(p.host.uid), "--gid", strconv.Itoa(p.host.gid))
	p.add("--cap-drop", "ALL", "--die-with-parent", "--new-session", "--hostname", "cage")
	p.add("--as-pid-1", "--json-status-fd", strconv.Itoa(statusFD), "--seccomp", strconv.Itoa(filterFD))
}

// place adds one mount and the pins it needs.
func (p *plan) place(m mount) error {
	if m.mode == denied && !p.visible(m.target) {
		return nil
	}
	if around, ok := p.around(m.target); ok && around.mode == write {
		if !around.granted && !m.granted {
			return fmt.Errorf("cannot mount %s at %s: it lies below %s, which the program can write", m.from, m.target, around.target)
		}
		p.pin(around, m)
	}
	p.took(m)
	switch m.mode {
	case denied:
		p.mask(m)
	case read:
		p.bind("--ro-bind", m.from, m.target)
	case write:
		p.bind("--bind", m.from, m.target)
	}
	return nil
}

// took takes note of a mount.
func (p *plan) took(m mount) {
	p.mounted[m.target] = m
	p.mounts++
}

// pin mounts every directory between a writable mount and a rule inside it upon
// itself. A mount point cannot be renamed; without pins the program moves the
// parent of a masked path away, and the next start masks a fresh, empty one.
func (p *plan) pin(around, m mount) {
	for _, dir := range between(around.target, m.target) {
		if _, ok := p.mounted[dir]; !ok {
			pin := mount{around.inside(dir), dir, write, true, around.granted}
			p.bind("--bind", pin.from, dir)
			p.took(pin)
		}
	}
	if !around.granted {
		p.points = append(p.points, around.inside(m.target))
	}
}

// around returns the nearest mount that holds target.
func (p *plan) around(target string) (mount, bool) {
	for dir := target; dir != "/"; {
		dir = filepath.Dir(dir)
		if m, ok := p.mounted[dir]; ok {
			return m, true
		}
	}
	return mount{}, false
}

// visible reports whether the host's path could be seen without a mask: where the
// nearest mount shows it, or where something that is shown lies inside it.
func (p *plan) visible(path string) bool {
	if m, ok := p.mounted[path]; ok {
		return m.shown()
	}
	if m, ok := p.around(path); ok {
		return m.shown() && m.mode != denied
	}
	for _, m := range p.mounted {
		if m.shown() && below(path, m.target) {
			return true
		}
	}
	return false
}

// mask hides what is at the target. A mask can be neither read nor changed,
// replaced nor removed, and a file stays a regular file, which version control
// relies on.
func (p *plan) mask(m mount) {
	// Where nothing is, bubblewrap would leave a new file in the user's directory.
	p.points = append(p.points, m.from)
	w := want{target: m.target, number: -1, readOnly: true, masked: true}
	if m.dir {
		p.add("--perms", "000", "--tmpfs", m.target, "--remount-ro", m.target)
	} else {
		w.same = input{path: p.host.void}
		p.add("--ro-bind", p.host.void, m.target)
	}
	p.expect(w)
}
