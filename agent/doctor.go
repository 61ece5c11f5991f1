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
	"pi-mcp/cage/cgroup"
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
// that is broken is left out. Of cfg it takes the programs, StateDir, Home, Provider
// and Limits.
func Doctor(ctx context.Context, cfg Config) []Finding {
	d := doctor{ctx: ctx, cfg: cfg}
	defer d.tools.close()
	for _, look := range [...]func(*doctor) bool{
		(*doctor).user, (*doctor).groups, (*doctor).limits, (*doctor).landlock, (*doctor).bubblewrap, (*doctor).setuid, (*doctor).steps, (*doctor).symlinks,
		(*doctor).selftest, (*doctor).findPi, (*doctor).cagedPi, (*doctor).credentials,
	} {
		if !look(&d) {
			break
		}
	}
	return d.found
}

// Healthy reports whether agents can run.
func Healthy(all []Finding) bool {
	return !slices.ContainsFunc(all, func(f Finding) bool { return f.Status == broken })
}

// A doctor looks at one thing after the other. Each look adds its findings and
// reports whether those after it make sense.
type doctor struct {
	ctx   context.Context
	cfg   Config
	tools tools
	found []Finding

	bwrap   *cage.Bwrap // once bubblewrap has found it
	install *pi.Install // once findPi has
}

func (d *doctor) say(name, status, format string, v ...any) {
	d.found = append(d.found, Finding{name, status, fmt.Sprintf(format, v...)})
}

func (d *doctor) user() bool {
	if os.Geteuid() == 0 {
		d.say("user", warning, "running as root: agents have no capabilities, but files of root that are granted are theirs to change, and what they make is root's; run pi-mcp as an ordinary user if you can")
		return true
	}
	d.say("user", fine, "uid %d", os.Geteuid())
	return true
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
func (d *doctor) landlock() bool {
	if abi := landlock.ABI(); abi >= landlock.Least {
		d.say("landlock", fine, "ABI %d", abi)
		return true
	}
	d.say("landlock", warning, "not available in this kernel: agents with the network policy host have one wall less")
	return true
}

// groups says what control groups can limit; limits, whether that is enough.
func (d *doctor) groups() bool {
	const name = "control groups"
	control, err := cgroup.Detect()
	if err != nil {
		d.say(name, warning, "%v", err)
		return true
	}
	_, lacks := control.Trim(cgroup.Limits{Processes: 1, MemoryBytes: 1, CPUPercent: 1})
	if len(lacks) > 0 {
		d.say(name, warning, "they limit %s; %s", control, strings.Join(lacks, "; "))
		return true
	}
	d.say(name, fine, "they can limit %s", control)
	return true
}

func (d *doctor) findPi() bool {
	install, err := d.tools.install(d.ctx, d.cfg)
	if err != nil {
		d.say("pi", broken, "%v", err)
		return false
	}
	d.install = install
	d.say("pi", fine, "version %s: %s", install.Version, strings.Join(install.Host, " "))
	return true
}

// credentials are those of the provider that a run takes by default; others may be
// fine without them.
func (d *doctor) credentials() bool {
	if _, err := d.install.Auth(d.ctx, d.cfg.Provider); err != nil {
		d.say("credentials", warning, "%v", err)
		return true
	}
	d.say("credentials", fine, "provider %s is ready", d.cfg.Provider)
	return true
}
