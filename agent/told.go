package agent

import (
	"fmt"
	"strings"

	"pi-mcp/cage"
	"pi-mcp/cage/egress"
	"pi-mcp/store"
)

// maxTold bounds how many paths of each kind an agent is told of: the text goes
// with every request to the model.
const maxTold = 40

// told is what an agent is told of where it lives, as a part of pi's system
// prompt, so that it does not have to find out by failing. g are all the rules
// that its cage is made to, and limits the sentences about what it may use.
func told(row *store.Agent, g cage.Grants, limits []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "You run in a sandbox as agent %s, supervised by pi-mcp.\n\n", row.ID)
	tellPaths(&b, "You may change", g.Write)
	tellPaths(&b, "You may read but not change", g.Read)
	tellPaths(&b, "Closed to you, also where they lie in the others", g.Denied)
	b.WriteString("- /tmp and /home/agent are your own and are kept between your turns and restarts. Nothing else of the machine is there but its programs, read-only.\n")
	tellNetwork(&b, egress.Policy(row.Network))
	for _, limit := range limits {
		b.WriteString("- " + limit + "\n")
	}
	b.WriteString("- There are no set-uid programs, no other users' processes and no Unix sockets; tools that need them fail.\n")
	return b.String()
}

// tellPaths tells of paths. One that would break out of its line is quoted.
func tellPaths(b *strings.Builder, what string, paths []string) {
	if len(paths) == 0 {
		return
	}
	fmt.Fprintf(b, "- %s:", what)
	for i, p := range paths {
		if i == maxTold {
			fmt.Fprintf(b, " and %d more", len(paths)-i)
			break
		}
		if strings.ContainsAny(p, "\n\r`") {
			p = fmt.Sprintf("%q", p)
		}
		fmt.Fprintf(b, " `%s`", p)
	}
	b.WriteString("\n")
}

func tellNetwork(b *strings.Builder, p egress.Policy) {
	const proxy = " Programs must use the proxy in HTTP_PROXY and HTTPS_PROXY; UDP, ping and plain ssh do not go through."
	switch p {
	case egress.Host:
		b.WriteString("- The network is the machine's own.\n")
	case egress.Internet:
		b.WriteString("- The network reaches public addresses, not this machine or its local network." + proxy + "\n")
	case egress.Provider:
		b.WriteString("- There is no network but for your own model.\n")
	default:
		list := p.Strings()
		if len(list) > maxTold {
			list = append(list[:maxTold:maxTold], "...")
		}
		b.WriteString("- The network reaches only " + strings.Join(list, ", ") + "." + proxy + "\n")
	}
}

// limitsTold says what an agent may use, as far as it is held to it.
func (s *Supervisor) limitsTold() (all []string) {
	l, group := s.cfg.Limits, s.groups.limits
	var kernel, disk []string
	add := func(to *[]string, limit int64, format, value string) {
		if orZero(limit) > 0 {
			*to = append(*to, fmt.Sprintf(format, value))
		}
	}
	add(&kernel, l.Processes, "%s processes and threads at a time", count(l.Processes))
	add(&kernel, group.MemoryBytes, "%s of memory for all of them together", size(group.MemoryBytes))
	add(&kernel, int64(group.CPUPercent), "the time of %s CPUs", cpus(int64(group.CPUPercent)))
	add(&kernel, l.FileSize, "%s in one file", size(l.FileSize))
	if s.cfg.CheckPause > 0 {
		add(&disk, l.Tmp, "%s in /tmp and /home/agent together", size(l.Tmp))
		add(&disk, l.TmpFiles, "%s files and directories there", count(l.TmpFiles))
		add(&disk, l.Session, "%s in your session file", size(l.Session))
	}
	if len(kernel) > 0 {
		all = append(all, "You may use "+strings.Join(kernel, ", ")+"; what needs more fails.")
	}
	if len(disk) > 0 {
		all = append(all, "You may keep "+strings.Join(disk, ", ")+". If there is more you are told once, and then stopped.")
	}
	return all
}
