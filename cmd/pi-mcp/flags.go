package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"pi-mcp/agent"
)

// flags are the settings of a server. Each has its environment variable, PI_MCP_
// and the flag's name; the flag wins.
func flags() []cli.Flag {
	d := agent.DefaultLimits()
	return []cli.Flag{
		text("transport", "stdio", "how clients connect: stdio"),
		text("db", "", "database file (default: pi-mcp/pi-mcp.sqlite3 in $XDG_DATA_HOME or ~/.local/share)"),
		text("agents-dir", "", "directory of the agents' logs, sessions and /tmp (default: agents beside the database)"),
		text("provider", "deepseek", "model provider of a run that names none"),
		text("model", "deepseek-flash", "model of a run that names none"),
		text("pi", "", "the pi to run (default: pi in PATH)"),
		text("node", "", "the Node.js to run pi with (default: found beside pi or in PATH)"),
		text("bwrap", "", "the bubblewrap to use (default: bwrap in PATH)"),
		text("network", "internet", "what agents may reach: provider (their model only), internet (public addresses), host (this machine's own network), or hosts such as github.com, *.npmjs.org:443"),
		text("egress-allow", "", "local addresses that agents may reach all the same, as ADDRESS:PORT, separated by commas"),
		toggle("child-mcp", true, "give agents an endpoint of their own, so that they can start agents themselves: on or off"),
		duration("refresh-pause", time.Second, "pause between two agents of the background lap, which refreshes numbers and takes over agents of servers that died; 0 turns it off"),
		duration("handshake", 60*time.Second, "how long a new pi may take to answer"),
		duration("grace", 3*time.Second, "how long a stopped pi may take to end by itself"),
		limit("max-agents", d.Agents, "live agents"),
		limit("max-group-agents", d.GroupAgents, "live agents of one group"),
		limit("max-message", d.Message, "bytes of one message"),
		limit("max-stdout", d.Stdout, "bytes of an agent's stdout.log"),
		limit("max-stderr", d.Stderr, "bytes of an agent's errors.log"),
		limit("max-processes", d.Processes, "processes and threads of one agent, at least 64"),
		limit("max-file-size", d.FileSize, "bytes of any one file that an agent writes"),
		limit("max-depth", d.Depth, "how deep agents may start agents; a client's own is at 0"),
		limit("max-descendants", d.Descendants, "agents that one agent may start over its life, with those that they start"),
		limit("max-callbacks", d.Callbacks, "how often an agent may call back without a message of a client in between"),
		duration("callback-hold", 10*time.Minute, "how long the callback of an agent may wait for the callbacks of those that work for it"),
		text("child-provider", "own", "which model providers a sandboxed agent may start agents with: own (its own), or any (whose keys it can then read)"),
		text("agent-scope", "descendants", "which agents of its group a sandboxed agent may read: descendants (its own, and itself), or group (all)"),
		limit("max-tmp", d.Tmp, "bytes that an agent keeps in /tmp and its home; over it, it is told once and then stopped"),
		limit("max-tmp-files", d.TmpFiles, "files and directories there, in the same way"),
		limit("max-session", d.Session, "bytes of an agent's session file, in the same way"),
		limit("max-memory", d.Memory, "bytes of memory of all processes of an agent, where a control group can be made"),
		&cli.GenericFlag{Name: "max-cpu", Value: (*cores)(&d.CPU), Sources: env("max-cpu"),
			Usage: "limit on CPUs whose time an agent may use, such as 1.5, where a control group can be made; none lifts it"},
		duration("check-pause", 5*time.Second, "pause between two looks at what an agent keeps on disk; 0 turns off the limits on that"),
		text("log-level", "warn", "debug, info, warn or error; the log goes to stderr"),
	}
}

func env(name string) cli.ValueSourceChain {
	return cli.EnvVars("PI_MCP_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
}

func text(name, value, usage string) cli.Flag {
	return &cli.StringFlag{Name: name, Value: value, Usage: usage, Sources: env(name)}
}

// duration is a flag that takes 1.5s, 200ms or, as the environment of the
// earlier server had it, a bare number of seconds.
func duration(name string, value time.Duration, usage string) cli.Flag {
	return &cli.GenericFlag{Name: name, Value: (*seconds)(&value), Usage: usage, Sources: env(name)}
}

func limit(name string, value int64, usage string) cli.Flag {
	return &cli.GenericFlag{Name: name, Value: (*amount)(&value), Usage: "limit on " + usage + "; none lifts it", Sources: env(name)}
}

// toggle is a flag that is on or off. Unlike a flag of the library's it always takes a
// value, so that flag and variable are written alike.
func toggle(name string, value bool, usage string) cli.Flag {
	return &cli.GenericFlag{Name: name, Value: (*onOff)(&value), Usage: usage, Sources: env(name)}
}

// onOff is a choice, also written as a boolean.
type onOff bool

func (o *onOff) Set(text string) error {
	on, err := strconv.ParseBool(text)
	switch {
	case text == "on":
		on = true
	case text == "off":
		on = false
	case err != nil:
		return fmt.Errorf("%q is neither on nor off", text)
	}
	*o = onOff(on)
	return nil
}

func (o *onOff) String() string {
	if *o {
		return "on"
	}
	return "off"
}

func (o *onOff) Get() any { return bool(*o) }

// seconds is a duration, also written as a number of seconds.
type seconds time.Duration

func (s *seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, nerr := strconv.ParseFloat(text, 64); nerr == nil && math.Abs(n) < 1e9 {
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil || d < 0 {
		return fmt.Errorf("%q is no duration: write 200ms, 1.5s or a number of seconds", text)
	}
	*s = seconds(d)
	return nil
}

func (s *seconds) String() string { return time.Duration(*s).String() }
func (s *seconds) Get() any       { return time.Duration(*s) }

// amount is a number, perhaps with KiB, MiB or GiB, or the word none.
type amount int64

func (a *amount) Set(text string) error {
	if text == "none" {
		*a = agent.NoLimit
		return nil
	}
	number, unit := text, int64(1)
	for suffix, size := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if n, ok := strings.CutSuffix(text, suffix); ok {
			number, unit = strings.TrimSpace(n), size
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return fmt.Errorf("%q is no limit: write a number, perhaps with KiB, MiB or GiB, or the word none", text)
	}
	*a = amount(n * unit)
	return nil
}

func (a *amount) String() string {
	if *a == agent.NoLimit {
		return "none"
	}
	return strconv.FormatInt(int64(*a), 10)
}

func (a *amount) Get() any { return int64(*a) }

// cores is a number of CPUs in hundredths, or the word none.
type cores int64

func (c *cores) Set(text string) error {
	if text == "none" {
		*c = agent.NoLimit
		return nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= 10_000) {
		return fmt.Errorf("%q is no limit: write a number of CPUs, such as 2 or 0.5, or the word none", text)
	}
	*c = cores(math.Round(n * 100))
	return nil
}

func (c *cores) String() string {
	if *c == agent.NoLimit {
		return "none"
	}
	return strconv.FormatFloat(float64(*c)/100, 'f', -1, 64)
}

func (c *cores) Get() any { return int64(*c) }

// limits are the limits that the flags set.
func limits(cmd *cli.Command) agent.Limits {
	of := func(name string) int64 { return cmd.Value("max-" + name).(int64) }
	return agent.Limits{
		Agents: of("agents"), GroupAgents: of("group-agents"), Message: of("message"), Stdout: of("stdout"), Stderr: of("stderr"),
		Processes: of("processes"), FileSize: of("file-size"), Memory: of("memory"), CPU: of("cpu"),
		Depth: of("depth"), Descendants: of("descendants"), Callbacks: of("callbacks"),
		Tmp: of("tmp"), TmpFiles: of("tmp-files"), Session: of("session"),
	}
}

// dbPath is where the database lies by default.
func dbPath() (string, error) {
	base := os.Getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("cannot tell where to keep the database: %w; pass --db", err)
		}
		base = filepath.Join(home, ".local", "share")
	}
	return filepath.Join(base, "pi-mcp", "pi-mcp.sqlite3"), nil
}
