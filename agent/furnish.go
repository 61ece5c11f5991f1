package agent

import (
	"errors"
	"io/fs"

	"pi-mcp/agent/pi"
	"pi-mcp/artifacts"
	"pi-mcp/cage"
	"pi-mcp/cage/egress"
)

// furnish makes the agent's directory, or what of it is made anew each time.
func (a *liveAgent) furnish(l *launch) (*artifacts.Dir, error) {
	all := a.sup.cfg.Artifacts
	if !a.row.Ready { // a start that was stopped early may or may not have made it
		err := all.Create(a.id, pi.SessionHeader(a.id, a.row.Cwd, a.row.Created))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	dir, err := all.Agent(a.id)
	if err != nil {
		return nil, err
	}
	if err := mountPoints(dir, l.grants); err != nil {
		return dir, err
	}
	mcp, err := a.mint(l)
	if err != nil {
		return dir, err
	}
	files, err := pi.Files(pi.FilesConfig{
		HostDir: a.sup.cfg.HostPi, Provider: a.row.Provider, Model: a.row.Model,
		Key: l.credential.Key, OAuth: l.credential.OAuth, ContextSize: a.row.ContextSize,
		MCP:  mcp,
		Told: told(&a.row, l.grants, a.sup.limitsTold()) + toldChildren(&a.row, a.sup.cfg.Limits, mcp != nil),
	})
	if err != nil {
		return dir, err
	}
	l.modelHost = modelHost(a.row.ModelHost, files, a.row.Provider, a.row.Model)
	return dir, dir.WritePi(files)
}

// mountPoints makes the places of grants below the host's /tmp in the agent's own
// /tmp, which covers the host's in the cage. No process of the agent lives now.
func mountPoints(dir *artifacts.Dir, g cage.Grants) error {
	dirs, files, err := g.Under("/tmp")
	if err != nil {
		return err
	}
	for _, p := range dirs {
		if err := dir.MountPoint(p, true); err != nil {
			return err
		}
	}
	for _, p := range files {
		if err := dir.MountPoint(p, false); err != nil {
			return err
		}
	}
	return nil
}

// spec is the cage of one agent.
func (a *liveAgent) spec(l launch) cage.Spec {
	p := a.sup.cfg.Artifacts.Paths(a.id)
	binds := []cage.Bind{
		{Source: p.Tmp, Target: "/tmp", Write: true},
		{Source: p.Home, Target: "/home/agent", Write: true},
		{Source: p.Pi, Target: "/pi-agent", Write: true},
		{Source: p.Session, Target: "/agent_session.jsonl", Write: true},
	}
	env := []string{
		"PATH=" + searchPath(l.pi.Caged[0]),
		"HOME=/home/agent", "USER=agent", "LANG=C.UTF-8", "TERM=dumb", "TMPDIR=/tmp",
		"AGENT_ID=" + a.id,
		"PI_CODING_AGENT_DIR=/pi-agent", "PI_OFFLINE=1", "PI_TELEMETRY=0", "PI_SKIP_VERSION_CHECK=1",
	}
	for _, m := range l.pi.Mounts {
		binds = append(binds, cage.Bind{Source: m.Source, Target: m.Target})
	}
	if l.cache != "" {
		binds = append(binds, cage.Bind{Source: l.cache, Target: cacheTarget})
		env = append(env, "NODE_COMPILE_CACHE="+cacheTarget)
	}
	spec := cage.Spec{
		Grants: l.grants, Spellings: a.row.Spellings, Binds: binds,
		Env: env, Dir: a.row.Cwd, Network: true, Limits: a.sup.cfg.Limits.perProcess(),
	}
	if policyOf(a.row.Network) != egress.Host {
		spec.Network, spec.Listen = false, []string{proxyAddress}
		if l.endpoint != nil {
			spec.Listen = append(spec.Listen, endpointAddress)
		}
		spec.Env = append(spec.Env, proxyEnv(l.modelHost)...)
	}
	return spec
}
