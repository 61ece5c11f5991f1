package cage

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The numbers of bubblewrap's descriptors after its three streams.
const (
	argsFD   = 3
	statusFD = 4
	lifeFD   = 5
	firstFD  = 6 // the first input of the plan
)

// maxMounts bounds the mounts of a cage's binds and grants. bubblewrap reads the
// whole mount table for each: 500 took 2 s and 1000 took 4 s, 2000 took 17.
const maxMounts = 1000

// A plan is everything that bubblewrap is told. Making one touches nothing.
type plan struct {
	args   []string
	inputs []input // what the numbers in args stand for, from firstFD on
	points []input // what must exist before the start, and is not handed over

	host    host
	mounted map[string]mount // by target
	mounts  int              // for binds and grants
}

// An input is a descriptor to be handed to bubblewrap: an open path or some data.
type input struct {
	path   string // the part that the caller vouches for
	rel    string // below path, where an agent may have planted symlinks
	strict bool   // path itself may not pass through symlinks either
	data   string // when path is empty
}

func (in input) String() string { return filepath.Join(in.path, in.rel) }

// A mount is one path of the host in the cage.
type mount struct {
	from    input
	target  string
	mode    mode
	dir     bool // what from is
	granted bool // by Grants, not by a Bind or the root
}

// shown reports whether the host's path is at its own place.
func (m mount) shown() bool { return m.from.String() == m.target }

// plan returns what makes the cage of s on h.
func (s Spec) plan(h host) (*plan, error) {
	p := &plan{host: h, mounted: make(map[string]mount)}
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
	}
	if p.mounts > maxMounts {
		return nil, fmt.Errorf("cannot make a cage with %d mounts, the limit is %d: "+
			"grant or deny whole directories instead of what is in them", p.mounts, maxMounts)
	}
	// After this no mount point can be made, so it comes last.
	p.add("--remount-ro", "/")
	p.add("--chdir", cmp.Or(s.Dir, "/"))
	for _, kv := range s.Env {
		p.setenv(kv)
	}
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
	p.add("--json-status-fd", strconv.Itoa(statusFD), "--sync-fd", strconv.Itoa(lifeFD))
}

// mounts returns the binds and the grants together, parents first.
func (s Spec) mounts(h host) ([]mount, error) {
	var all []mount
	for _, b := range s.Binds {
		m := mount{from: input{path: b.Source}, target: b.Target, mode: read}
		if b.Write {
			m.mode = write
		}
		all = append(all, m)
	}
	for _, r := range s.Grants.rules() {
		if err := s.apart(r); err != nil {
			return nil, err
		}
		// A grant must be the very path that Resolve found, hence strict.
		all = append(all, mount{input{path: r.path, strict: true}, r.path, r.mode, h.kinds[r.path], true})
	}
	slices.SortStableFunc(all, func(a, b mount) int { return parentsFirst(a.target, b.target) })
	return all, nil
}

// apart refuses a grant whose place in the cage is already something else. Below
// the cage's own /tmp there is room: temporary projects live in the host's.
func (s Spec) apart(r rule) error {
	for _, b := range s.Binds {
		if r.mode == denied || b.Source == b.Target {
			continue
		}
		if covers(r.path, b.Target) || covers(b.Target, r.path) && b.Target != "/tmp" {
			return r.refuse("the cage has its own %s there; grant a path elsewhere", b.Target)
		}
	}
	return nil
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

// inside returns what the mount shows at target, which lies below its own.
func (m mount) inside(target string) input {
	in := m.from
	in.rel = filepath.Join(in.rel, strings.TrimPrefix(target, m.target+"/"))
	return in
}

// between returns the directories strictly between top and path, top down.
func between(top, path string) []string {
	var dirs []string
	for dir := filepath.Dir(path); below(top, dir); dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
	}
	slices.Reverse(dirs)
	return dirs
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

// visible reports whether the host's path could be seen without a mask.
func (p *plan) visible(path string) bool {
	for _, m := range p.mounted {
		if m.shown() && m.mode != denied && (covers(m.target, path) || covers(path, m.target)) {
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
	if m.dir {
		p.add("--perms", "000", "--tmpfs", m.target, "--remount-ro", m.target)
		return
	}
	p.add("--ro-bind", p.host.void, m.target)
}
