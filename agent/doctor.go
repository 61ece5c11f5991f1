package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"pi-mcp/agent/pi"
	"pi-mcp/cage"
	"pi-mcp/cage/landlock"
)

// A Finding is one thing that Doctor looked at.
type Finding struct {
	Name   string `json:"name"`
	Status string `json:"status"` // ok, warning or error; with an error no agent can run
	Detail string `json:"detail"` // what was seen, and the remedy
}

// Statuses of a Finding.
const (
	fine    = "ok"
	warning = "warning"
	broken  = "error"
)

// Doctor tries out everything that a start needs, with real cages, and says what
// it found in the order in which a start would need it. What depends on something
// that is broken is left out. Of cfg it takes the programs, StateDir,
// Provider and Limits.
func Doctor(ctx context.Context, cfg Config) []Finding {
	d := doctor{ctx: ctx, cfg: cfg}
	defer d.tools.close()
	d.user()
	if !d.limits() {
		return d.found
	}
	d.landlock()
	bwrap, ok := d.bubblewrap()
	if !ok || !d.cages(bwrap) {
		return d.found
	}
	install, ok := d.pi()
	if !ok || !d.cagedPi(bwrap, install) {
		return d.found
	}
	d.credentials(install)
	return d.found
}

// Healthy reports whether agents can run.
func Healthy(all []Finding) bool {
	return !slices.ContainsFunc(all, func(f Finding) bool { return f.Status == broken })
}

type doctor struct {
	ctx   context.Context
	cfg   Config
	tools tools
	found []Finding
}

func (d *doctor) say(name, status, format string, v ...any) {
	d.found = append(d.found, Finding{name, status, fmt.Sprintf(format, v...)})
}

func (d *doctor) user() {
	if os.Geteuid() == 0 {
		d.say("user", warning, "running as root: agents have no capabilities, but files of root that are granted are theirs to change; run pi-mcp as an ordinary user if you can")
		return
	}
	d.say("user", fine, "uid %d", os.Geteuid())
}

// limits looks at what holds the processes of an agent together.
func (d *doctor) limits() bool {
	g := findGroups("doctor", d.cfg.Limits, slog.New(slog.DiscardHandler))
	if err := g.check(d.cfg.Limits); err != nil {
		d.say("limits", broken, "%v", err)
		return false
	}
	if len(g.short) > 0 {
		d.say("limits", warning, "agents run without a limit that was asked for: %s", strings.Join(g.short, "; "))
		return true
	}
	said := "the kernel counts the processes of an agent, not its memory and CPU"
	if g.control != nil {
		said = "a control group can count " + g.control.String()
	}
	if d.cfg.Limits.Memory == NoLimit && d.cfg.Limits.CPU == NoLimit {
		said += "; --max-memory and --max-cpu are not set"
	}
	d.say("limits", fine, "%s", said)
	return true
}

// landlock is used for agents in the host's network only.
func (d *doctor) landlock() {
	if abi := landlock.ABI(); abi >= landlock.Least {
		d.say("landlock", fine, "ABI %d", abi)
		return
	}
	d.say("landlock", warning, "not available in this kernel: agents with the network policy host have one wall less")
}

func (d *doctor) bubblewrap() (*cage.Bwrap, bool) {
	bwrap, err := d.tools.cage(d.cfg)
	if err != nil {
		d.say("bubblewrap", broken, "%v", err)
		return nil, false
	}
	if missing := bwrap.Missing(); len(missing) > 0 {
		d.say("bubblewrap", warning, "%s lacks %s; a newer one makes stronger cages", bwrap.Path(), strings.Join(missing, ", "))
		return bwrap, true
	}
	d.say("bubblewrap", fine, "%s", bwrap.Path())
	return bwrap, true
}

// cages makes one like an agent's, with a network of its own, and runs a program.
func (d *doctor) cages(bwrap *cage.Bwrap) bool {
	spec := cage.Spec{Env: []string{"PATH=/usr/bin:/bin"}}
	res, err := bwrap.Run(d.ctx, spec, []string{"/bin/sh", "-c", "test ! -e /home/agent && ! touch /x 2>/dev/null"}, cage.Limits{})
	switch {
	case err != nil:
		d.say("cage", broken, "%v", err)
		return false
	case res.Exit.Code != 0:
		d.say("cage", broken, "a program in a cage could write to its root: do not run agents here, and report this")
		return false
	}
	d.say("cage", fine, "a program ran in a cage with a network of its own and a read-only root")
	return true
}

func (d *doctor) pi() (*pi.Install, bool) {
	install, err := d.tools.install(d.ctx, d.cfg)
	if err != nil {
		d.say("pi", broken, "%v", err)
		return nil, false
	}
	d.say("pi", fine, "version %s: %s", install.Version, strings.Join(install.Host, " "))
	return install, true
}

// cagedPi shows that pi finds all it needs inside.
func (d *doctor) cagedPi(bwrap *cage.Bwrap, install *pi.Install) bool {
	spec := cage.Spec{Env: []string{"PATH=/usr/bin:/bin"}}
	for _, m := range install.Mounts {
		spec.Binds = append(spec.Binds, cage.Bind{Source: m.Source, Target: m.Target})
	}
	res, err := bwrap.Run(d.ctx, spec, append(slices.Clone(install.Caged), "--version"), cage.Limits{})
	if err != nil {
		d.say("pi in a cage", broken, "%v", err)
		return false
	}
	if res.Exit.Code != 0 {
		d.say("pi in a cage", broken, "pi --version ended with %d; a library or file that it needs is not in the cage: %s", res.Exit.Code, clip(text(res.Stderr), 1<<10))
		return false
	}
	d.say("pi in a cage", fine, "answers %s", strings.TrimSpace(text(res.Stdout)))
	return true
}

// credentials are those of the provider that a run takes by default; others may be
// fine without them.
func (d *doctor) credentials(install *pi.Install) {
	if _, err := install.Auth(d.ctx, d.cfg.Provider); err != nil {
		d.say("credentials", warning, "%v", err)
		return
	}
	d.say("credentials", fine, "provider %s is ready", d.cfg.Provider)
}
