package cage

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// debian12 is a made-up host that no test depends on really being.
func debian12(kinds map[string]bool) host {
	all := make(features)
	for _, name := range needed {
		all[name] = true
	}
	for _, lack := range wanted {
		all[lack.Option] = true
	}
	return host{
		features: all, uid: 1001, gid: 1002, void: "/state/void", program: "/bin/pi-mcp",
		links:  map[string]string{"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64", "sbin": "usr/sbin"},
		etc:    []string{"hosts", "ssl/certs"},
		resolv: "nameserver 192.0.2.1\n",
		kinds:  kinds,
	}
}

// leading is h where all spellings lead to one place.
func (h host) leading(to string, spellings ...string) host {
	h.leads = make(map[string]string)
	for _, path := range spellings {
		h.leads[path] = to
	}
	return h
}

func (h host) without(options ...string) host {
	for _, name := range options {
		delete(h.features, name)
	}
	return h
}

var agent = []Bind{
	{"/agents/1/tmp", "/tmp", true},
	{"/agents/1/home", "/home/agent", true},
	{"/agents/1/session", "/agent_session.jsonl", true},
	{"/home/u/.nvm/node_modules", "/opt/pi-mcp/node_modules", false},
}

func TestPlan(t *testing.T) {
	dirs := func(paths ...string) map[string]bool {
		kinds := make(map[string]bool)
		for _, path := range paths {
			kinds[path] = true
		}
		return kinds
	}
	root := debian12(nil)
	root.uid, root.gid = 0, 0
	old := debian12(nil)
	old.links, old.dirs = map[string]string{"lib64": "lib"}, []string{"bin", "lib", "sbin"}
	for name, test := range map[string]struct {
		spec Spec
		host host
	}{
		"empty":   {Spec{}, debian12(nil)},
		"root":    {Spec{}, root},
		"network": {Spec{Network: true}, debian12(nil)},
		"split":   {Spec{}, old.without("--bind-fd", "--ro-bind-fd", "--disable-userns", "--size", "--unshare-cgroup-try")},
		"agent": {Spec{Binds: agent, Env: []string{"A=1", "EMPTY=", "B=x=y\nz"}, Dir: "/home/u/w", Grants: Grants{
			Write:  []string{"/home/u/w"},
			Read:   []string{"/data", "/home/u/w/deep/er/ro"},
			Denied: []string{"/home/u/w/deep/er/secret", "/home/u/w/deep/.env", "/data/x/y", "/elsewhere", "/usr/share/z"},
		}}, debian12(dirs("/home/u/w", "/data", "/home/u/w/deep/er/ro", "/home/u/w/deep/er/secret", "/elsewhere", "/usr/share/z"))},
		"tmp": {Spec{Binds: agent, Grants: Grants{
			Write:  []string{"/tmp/a/project", "/tmp/a/file", "/var/tmp/b"},
			Denied: []string{"/tmp/a/project/x/secret", "/tmp/other"},
		}}, debian12(dirs("/tmp/a/project", "/var/tmp/b", "/tmp/other"))},
		"paths": {Spec{Binds: agent, Grants: Grants{
			Write: []string{"/w", "/w/a/ro/rw"}, Read: []string{"/w/a/ro"}, Denied: []string{"/w/a/ro/rw/b/no"},
		}}, debian12(dirs("/w", "/w/a/ro", "/w/a/ro/rw")).without("--bind-fd", "--ro-bind-fd")},
		"spellings": {Spec{
			Binds:     agent,
			Grants:    Grants{Write: []string{"/data/real/w"}, Read: []string{"/home/u/r"}},
			Spellings: []string{"/bin/w", "/data", "/data/link", "/data/link/below", "/data/real/w/in", "/etc/w", "/gone", "/home", "/home/v/a\nb", "/tmp", "/tmp/w", "/usr/w", "/var/tmp/w"},
		}, debian12(dirs("/data/real/w", "/home/u/r")).leading("/data/real/w", "/bin/w", "/data", "/data/link", "/data/link/below",
			"/data/real/w/in", "/etc/w", "/home", "/home/v/a\nb", "/tmp", "/tmp/w", "/usr/w", "/var/tmp/w")},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := test.spec.plan(test.host)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, name, p.show())
		})
	}
}

// show writes an option a line, then what the numbers stand for.
func (p *plan) show() string {
	var b strings.Builder
	for i, arg := range p.args {
		switch {
		case i == 0:
		case strings.HasPrefix(arg, "--"):
			b.WriteByte('\n')
		default:
			b.WriteByte(' ')
		}
		b.WriteString(strings.ReplaceAll(arg, "\n", `\n`))
	}
	b.WriteString("\n")
	for i, in := range p.inputs {
		fmt.Fprintf(&b, "%d: %s\n", firstFD+i, in.show())
	}
	for _, in := range p.points {
		fmt.Fprintf(&b, "point: %s\n", in.show())
	}
	for _, w := range p.wants {
		fmt.Fprintf(&b, "want: %s\n", w.show())
	}
	return b.String()
}

func (w want) show() string {
	s := w.target
	if w.readOnly {
		s += " read-only"
	}
	if w.masked {
		s += " masked"
	}
	if w.number >= 0 {
		return s + fmt.Sprint(" is ", firstFD+w.number)
	}
	if w.same != (input{}) {
		s += " is " + w.same.show()
	}
	return s
}

// show tells the part that may have no symlinks: all of it, or what is below +.
func (in input) show() string {
	switch {
	case in.program:
		return "program " + in.path
	case in.path == "":
		return fmt.Sprintf("data %q", in.data)
	case in.strict:
		return "strict " + in.String()
	case in.rel != "":
		return in.path + " + " + in.rel
	}
	return in.path
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("not as in %s (-update rewrites it):\n%s", path, diff)
	}
}

func TestPlanRefuses(t *testing.T) {
	for _, test := range []struct {
		spec Spec
		why  string
	}{
		{Spec{Binds: agent, Grants: Grants{Write: []string{"/home/agent/project"}}}, "its own /home/agent"},
		{Spec{Binds: agent, Grants: Grants{Read: []string{"/opt"}}}, "its own /opt/pi-mcp/node_modules"},
		{Spec{Binds: agent, Grants: Grants{Read: []string{"/tmp"}}}, "its own /tmp"},
		{Spec{Binds: append([]Bind{{"/x", "/tmp/x", false}}, agent...)}, "which the program can write"},
	} {
		_, err := test.spec.plan(debian12(nil))
		if err == nil || !strings.Contains(err.Error(), test.why) {
			t.Errorf("%v: error %v, want %q", test.spec.Grants, err, test.why)
		}
	}
}

func TestSpecCheck(t *testing.T) {
	argv := []string{"/bin/true"}
	for _, test := range []struct {
		spec Spec
		argv []string
		ok   bool
	}{
		{Spec{}, argv, true},
		{Spec{}, nil, false},
		{Spec{}, []string{""}, false},
		{Spec{}, []string{"true"}, false},
		{Spec{}, []string{"/bin/true", "\x00"}, false},
		{Spec{Listen: make([]string, 17)}, argv, false},
		{Spec{Limits: Rlimits{Processes: 63}}, argv, false},
		{Spec{Limits: Rlimits{Processes: 64, FileSize: 1}}, argv, true},
		{Spec{Limits: Rlimits{FileSize: -1}}, argv, false},
		{Spec{Limits: Rlimits{Data: 1 << 20, CPU: 1}}, argv, true},
		{Spec{Limits: Rlimits{Data: -1}}, argv, false},
		{Spec{Limits: Rlimits{CPU: -1}}, argv, false},
		{Spec{Binds: []Bind{{"/a", "/.pi-mcp-init", false}}}, argv, false},
		{Spec{Env: []string{"A="}}, argv, true},
		{Spec{Env: []string{"A"}}, argv, false},
		{Spec{Env: []string{"=A"}}, argv, false},
		{Spec{Env: []string{"A=\x00--bind"}}, argv, false},
		{Spec{Dir: "/x"}, argv, true},
		{Spec{Dir: "x"}, argv, false},
		{Spec{Dir: "/x\x00"}, argv, false},
		{Spec{Binds: []Bind{{"/a", "/b", false}}}, argv, true},
		{Spec{Binds: []Bind{{"/a", "/", false}}}, argv, false},
		{Spec{Binds: []Bind{{"a", "/b", false}}}, argv, false},
		{Spec{Binds: []Bind{{"/a", "/b/../c", false}}}, argv, false},
		{Spec{Grants: Grants{Read: []string{"/a/b"}}}, argv, true},
		{Spec{Grants: Grants{Read: []string{"/a/../b"}}}, argv, false},
		{Spec{Grants: Grants{Denied: []string{"/a\x00b"}}}, argv, false},
	} {
		if err := test.spec.check(test.argv); (err == nil) != test.ok {
			t.Errorf("%+v %q: %v", test.spec, test.argv, err)
		}
	}
}
