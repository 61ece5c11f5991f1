package cgroup

// DetectIn is Detect for a machine whose files are below root.
func DetectIn(root string, mkdir, rmdir func(string) error) (*Controller, error) {
	return detect(root, kernel{mkdir: mkdir, rmdir: rmdir})
}

// DetectAsRoot is DetectIn for root.
func DetectAsRoot(root string, mkdir, rmdir func(string) error) (*Controller, error) {
	return detect(root, kernel{root: true, mkdir: mkdir, rmdir: rmdir})
}

// Unlimited makes groups without limits in a directory of a cgroup2 mount.
func Unlimited(dir string) *Controller {
	return &Controller{kernel: host(), places: []place{{unified: true, dir: dir}}}
}

// Unified returns where the machine has cgroup2 mounted, "" for nowhere.
func Unified() string {
	mounts, _ := readMounts("")
	for _, m := range mounts {
		if m.unified {
			return m.point
		}
	}
	return ""
}

// Paths returns the group's directories.
func (g *Group) Paths() []string {
	var paths []string
	for _, d := range g.dirs {
		paths = append(paths, d.path)
	}
	return paths
}
