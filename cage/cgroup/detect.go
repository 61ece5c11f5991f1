package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Detect finds out what this machine lets this process limit. It changes nothing.
// The error, when that is nothing at all, says why and what to do. Version 2 is
// taken when it can limit processes; the versions are never mixed.
func Detect() (*Controller, error) { return detect("", host()) }

// detect is Detect for the machine whose files are below root.
func detect(root string, k kernel) (*Controller, error) {
	mounts, err := readMounts(root)
	own, err2 := readOwn(root)
	if err := errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("cannot find this process's control groups: %w", err)
	}
	v2, why2 := findUnified(mounts, own, k.root)
	v1, why1 := findLegacy(mounts, own)
	places := v1
	if limited(v2, processes) || len(v1) == 0 {
		places = v2
	}
	c := &Controller{kernel: k, places: places, lacks: make(map[resource]string)}
	for _, r := range resources {
		if !limited(places, r) {
			c.lacks[r] = fmt.Sprintf("cgroup v2: %s; cgroup v1: %s; %s", why2[r], why1[r], remedy())
		}
	}
	if len(places) == 0 {
		return nil, fmt.Errorf("cannot limit processes, memory or CPU: %s", c.lacks[processes])
	}
	return c, nil
}

// remedy says how this process could have come by a group of its own.
func remedy() string {
	if os.Geteuid() == 0 {
		return "start the server with systemd-run --scope -p Delegate=yes, or as the only program of a container whose /sys/fs/cgroup is writable"
	}
	return "start the server with systemd-run --user --scope -p Delegate=yes"
}

func limited(places []place, r resource) bool {
	return slices.ContainsFunc(places, func(p place) bool { return slices.Contains(p.limits, r) })
}

// reasons says for each resource why it cannot be limited, and for the others
// whatever.
type reasons map[resource]string

func forAll(why string) reasons {
	return reasons{processes: why, memory: why, cpu: why}
}

// findUnified returns the places of version 2, or none: this process's own group where
// it may divide that, otherwise for root those above it that are divided already.
func findUnified(mounts []mount, own map[string]string, root bool) ([]place, reasons) {
	i := slices.IndexFunc(mounts, func(m mount) bool { return m.unified })
	if i < 0 {
		return nil, forAll("not mounted")
	}
	dir, ok := mounts[i].dir(own[""])
	if !ok {
		return nil, forAll(fmt.Sprintf("this process's group %q is outside of what is mounted at %s", own[""], mounts[i].point))
	}
	if filepath.Base(dir) == serverGroup { // made by an earlier Controller's first New
		dir = filepath.Dir(dir)
	}
	places, why := delegated(dir)
	if root && !limited(places, processes) {
		if above := divided(mounts[i].point, dir); len(above) > 0 {
			return above, forAll("no group above " + dir + " has its controller for those below")
		}
	}
	return places, why
}

// delegated returns the group dir as the place, or none.
func delegated(dir string) ([]place, reasons) {
	offered, why := offers(dir)
	if len(offered) == 0 {
		return nil, why
	}
	p, err := plan(dir, offered)
	if err != nil {
		return nil, forAll(err.Error())
	}
	return []place{p}, why
}

// divided returns the groups above dir, up to top, in which groups can be limited as
// they are: nothing is enabled and nobody moved in what is not this server's. They are
// the nearest that counts processes and those further up that limit more: the kernel
// lets a group hand on only what it has from above.
func divided(top, dir string) (places []place) {
	most := 0
	for dir != top {
		dir = filepath.Dir(dir)
		p := place{unified: true, dir: dir, limits: named(words(dir, "cgroup.subtree_control"))}
		if len(p.limits) > most && slices.Contains(p.limits, processes) && writable(dir, ".", "cgroup.procs") == nil {
			places, most = append(places, p), len(p.limits)
		}
	}
	return places
}

// offers returns what could be limited below the version 2 group dir.
func offers(dir string) ([]resource, reasons) {
	return named(words(dir, "cgroup.controllers")), forAll("there is no controller for it at " + dir)
}

// named returns the resources of controllers.
func named(controllers []string) (all []resource) {
	for _, r := range resources {
		if slices.Contains(controllers, string(r)) {
			all = append(all, r)
		}
	}
	return all
}

// plan says how groups with these limits come to be in dir.
func plan(dir string, offered []resource) (place, error) {
	if err := writable(dir, ".", "cgroup.procs", "cgroup.subtree_control"); err != nil {
		return place{}, err
	}
	p := place{unified: true, dir: dir, limits: offered}
	enabled := words(dir, "cgroup.subtree_control")
	for _, r := range offered {
		if !slices.Contains(enabled, string(r)) {
			p.enable = append(p.enable, string(r))
		}
	}
	// The hierarchy's real root has no type and may hold both.
	if _, err := os.Stat(filepath.Join(dir, "cgroup.type")); err != nil || len(p.enable) == 0 {
		return p, nil
	}
	pids, err := readPids(dir)
	if err != nil {
		return place{}, err
	}
	p.leave = pids
	return p, ours(dir, pids)
}

// ours refuses to move processes that are not this server's: only this one, and in a
// container the init that does nothing but wait for it.
func ours(dir string, pids []int) error {
	for _, pid := range pids {
		if pid != os.Getpid() && !(pid == 1 && os.Getppid() == 1) {
			return fmt.Errorf("%s holds a process that is not this server's (pid %d)", dir, pid)
		}
	}
	return nil
}

// findLegacy returns the places of version 1.
func findLegacy(mounts []mount, own map[string]string) ([]place, reasons) {
	var places []place
	why := forAll("not mounted")
	for _, r := range resources {
		for _, m := range mounts {
			if !m.carries(r) {
				continue
			}
			dir, err := legacyDir(m, r, own[string(r)])
			if err != nil {
				why[r] = err.Error()
				continue
			}
			places = include(places, dir, r)
			break
		}
	}
	return places, why
}

// include adds a resource to its place; two may share a hierarchy.
func include(places []place, dir string, r resource) []place {
	for i := range places {
		if places[i].dir == dir {
			places[i].limits = append(places[i].limits, r)
			return places
		}
	}
	return append(places, place{dir: dir, limits: []resource{r}})
}

// legacyDir returns where this process can make groups of version 1.
func legacyDir(m mount, r resource, group string) (string, error) {
	dir, ok := m.dir(group)
	if !ok {
		return "", fmt.Errorf("this process's group %q is outside of what is mounted at %s", group, m.point)
	}
	if _, err := os.Stat(filepath.Join(dir, "cpu.cfs_quota_us")); err != nil && r == cpu {
		return "", errors.New("this kernel has no CPU bandwidth control")
	}
	return dir, writable(dir, ".", "tasks") // tasks: to come back to it
}
