package cage

import (
	"path/filepath"
	"strconv"
	"strings"
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
// without that option gets the path.
func (p *plan) bind(option string, in input, target string) {
	if p.host.features[option+"-fd"] {
		p.add(option+"-fd", p.descriptor(in), target)
		return
	}
	p.points = append(p.points, in) // at least it is no symlink now
	p.add(option, filepath.Join(in.path, in.rel), target)
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

// setenv goes through the argument list, which bubblewrap reads from a
// descriptor: /proc/1/environ and every cmdline stay empty of it.
func (p *plan) setenv(kv string) {
	name, value, _ := strings.Cut(kv, "=")
	p.add("--setenv", name, value)
}
