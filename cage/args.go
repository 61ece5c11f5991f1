package cage

import (
	"path/filepath"
	"strconv"
)

func (p *plan) add(args ...string) { p.args = append(p.args, args...) }

// addIf adds an option that only some bubblewraps have.
func (p *plan) addIf(option string, args ...string) {
	if p.host.features[option] {
		p.add(append([]string{option}, args...)...)
	}
}

// bind mounts in at target; option is --bind or --ro-bind. By descriptor, what
// was opened is what is mounted, whoever swaps the path meanwhile. A bubblewrap
// without that option gets the path, and what it made of it is seen from inside.
func (p *plan) bind(option string, in input, target string) {
	w := want{target: target, same: in, number: -1, readOnly: option == "--ro-bind"}
	if p.host.features[option+"-fd"] {
		w.number = len(p.inputs)
		p.add(option+"-fd", p.descriptor(in), target)
	} else {
		p.add(option, filepath.Join(in.path, in.rel), target)
	}
	p.expect(w)
}

// file makes a file of the cage's own, read-only as the root it lies in.
func (p *plan) file(target, content string) {
	p.add("--perms", "0444", "--file", p.descriptor(input{data: content}), target)
}

// descriptor returns the number that in will have in bubblewrap.
func (p *plan) descriptor(in input) string {
	p.inputs = append(p.inputs, in)
	return strconv.Itoa(firstFD + len(p.inputs) - 1)
}
