package agent

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pi-mcp/cage"
	"pi-mcp/cage/selftest"
)

func (d *doctor) bubblewrap() bool {
	bwrap, err := d.tools.cage(d.cfg)
	if err != nil {
		d.say("bubblewrap", broken, "%v", err)
		return false
	}
	d.bwrap = bwrap
	version := bwrap.Version(d.ctx)
	if missing := bwrap.Missing(); len(missing) > 0 {
		var all []string
		for _, lack := range missing {
			all = append(all, fmt.Sprintf("%s (%s)", lack.Option, lack.Means))
		}
		d.say("bubblewrap", warning, "%s %s lacks %s; install a newer one", bwrap.Path(), version, strings.Join(all, ", "))
		return true
	}
	d.say("bubblewrap", fine, "%s %s", bwrap.Path(), version)
	return true
}

// setuid warns of a bubblewrap that is root while it makes a cage.
func (d *doctor) setuid() bool {
	info, err := os.Stat(d.bwrap.Path())
	switch {
	case err != nil:
		d.say("setuid", broken, "%v", err)
		return false
	case info.Mode()&os.ModeSetuid != 0:
		d.say("setuid", warning, "%s has the set-user-ID bit (mode 4755), so its faults are root's: before 0.11.2 there is one that any user can use (CVE-2026-41163); "+
			"take the bit away with chmod u-s if this kernel has user namespaces, or install 0.11.2 or later", d.bwrap.Path())
	default:
		d.say("setuid", fine, "bubblewrap runs with this user's rights only")
	}
	return true
}

// steps shows how far the making of a cage comes.
func (d *doctor) steps() bool {
	for _, s := range d.bwrap.Steps(d.ctx) {
		if s.Err != nil {
			d.say(s.Name, broken, "%v", s.Err)
			return false
		}
		d.say(s.Name, fine, "can be had")
	}
	return true
}

func (d *doctor) symlinks() bool {
	const name = "symlinks"
	follows, err := d.bwrap.FollowsSymlinks(d.ctx, d.cfg.StateDir)
	switch {
	case err != nil:
		d.say(name, warning, "what bubblewrap does about symlinks could not be tried out: %v", err)
	case follows:
		d.say(name, warning, "this bubblewrap follows symlinks while it mounts (CVE-2026-87766): agents that share a directory with rules inside are started one after the other, "+
			"and every mount is checked from inside before an agent runs; upgrade to 0.12 or later")
	default:
		d.say(name, fine, "bubblewrap follows no symlink out of a cage while it mounts")
	}
	return true
}

// selftest has a program in a cage try to get out.
func (d *doctor) selftest() bool {
	secret := filepath.Join(d.cfg.StateDir, "secret")
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		d.say("cage", broken, "%v", err)
		return false
	}
	all, err := selftest.Run(d.ctx, d.bwrap, d.hidden(secret))
	if err != nil {
		d.say("cage", broken, "%v", err)
		return false
	}
	whole := true
	for _, r := range all {
		if r.Achieved != "" {
			d.say("cage", broken, "a program in a cage could %s: %s; do not run agents with this bubblewrap", r.Name, r.Achieved)
			whole = false
		}
	}
	if whole {
		d.say("cage", fine, "a program in a cage tried %d ways out of it, and all were closed", len(all))
	}
	return whole
}

// hidden are paths that no cage shows unless they are granted. A home below /usr or
// at one of a cage's own places would be there by design.
func (d *doctor) hidden(secret string) []string {
	home := filepath.Clean(d.cfg.Home)
	for _, shown := range []string{"/usr", "/etc", "/dev", "/proc", "/run", "/tmp", "/var"} {
		if d.cfg.Home == "" || home == "/" || within(home, shown) {
			return []string{secret}
		}
	}
	return []string{secret, home}
}

// cagedPi shows that pi finds all it needs inside.
func (d *doctor) cagedPi() bool {
	const name = "pi in a cage"
	spec := cage.Spec{Env: []string{"PATH=/usr/bin:/bin"}}
	for _, m := range d.install.Mounts {
		spec.Binds = append(spec.Binds, cage.Bind{Source: m.Source, Target: m.Target})
	}
	res, err := d.bwrap.Run(d.ctx, spec, append(slices.Clone(d.install.Caged), "--version"), cage.Limits{})
	if err != nil {
		d.say(name, broken, "%v%s", err, needs(d.install.Host[0]))
		return false
	}
	if res.Exit.Code != 0 {
		d.say(name, broken, "pi --version ended with %d; a library or file that it needs is not in the cage: %s%s",
			res.Exit.Code, clip(text(res.Stderr), 1<<10), needs(d.install.Host[0]))
		return false
	}
	d.say(name, fine, "answers %s", strings.TrimSpace(text(res.Stdout)))
	return true
}

// needs says what a program is loaded with, "" for one that needs nothing.
func needs(path string) string {
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	libraries, _ := f.ImportedLibraries()
	loader := ""
	if s := f.Section(".interp"); s != nil {
		data, _ := s.Data()
		loader = strings.TrimRight(string(data), "\x00")
	}
	if loader == "" {
		return ""
	}
	return fmt.Sprintf(" (%s needs the loader %s and the libraries %s)", path, loader, strings.Join(libraries, ", "))
}
