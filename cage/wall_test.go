package cage_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pi-mcp/cage"
	"pi-mcp/cage/landlock"
)

// walled returns what makes cages with a second wall and what makes them without,
// as on a kernel that has no Landlock. On such a kernel both do.
func walled(t *testing.T, bwrap string) map[bool]*cage.Bwrap {
	t.Helper()
	all := map[bool]*cage.Bwrap{}
	for _, wall := range []bool{true, false} {
		b, err := cage.Open(cage.Config{Bwrap: bwrap, Init: initProgram, StateDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		if !wall {
			cage.WithoutLandlock(b)
		}
		all[wall] = b
	}
	return all
}

// TestWallScopes: a program in the host's network can neither connect to an abstract
// socket of the host, where it may have sockets of that kind at all, nor signal
// the first process of its cage. Without Landlock it can do both, and among its own
// processes it can in any case.
func TestWallScopes(t *testing.T) {
	t.Parallel()
	const scopes = 6 // the version that came with them
	name := "@pi-mcp-" + marker(60)
	listener, err := net.Listen("unix", name)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for wall, b := range walled(t, "") {
		refused := wall && landlock.ABI() >= scopes
		for script, what := range map[string]string{
			dialAbstract(t, name): "connect to an abstract socket of the host",
			"kill -0 1":           "signal pid 1",
		} {
			r := shell(t, b, cage.Spec{Network: true, Unix: true}, script)
			if (r.Exit.Code != 0) != refused || refused && !strings.Contains(string(r.Stderr), "Operation not permitted") {
				t.Errorf("%s, walled %t: exit %d, want refused %t: %s", what, wall, r.Exit.Code, refused, r.Stderr)
			}
		}
		output(t, b, cage.Spec{Network: true, Unix: true}, "sleep "+marker(61)+" & kill $! && ! wait $!")
		output(t, b, cage.Spec{Network: true, Unix: true}, ownAbstract(t, name+"-own"))
	}
	// In a network of its own there is no wall: pid 1 is for signals as it always was.
	output(t, open(t), cage.Spec{}, "kill -0 1")
}

// dialAbstract and ownAbstract are in Perl, which every Debian has and which has
// abstract sockets; a shell has none.
func dialAbstract(t *testing.T, name string) string {
	return perl(t, fmt.Sprintf(`connect($s, pack_sockaddr_un("\0%s")) or die "$!\n"`, name[1:]))
}

func ownAbstract(t *testing.T, name string) string {
	return perl(t, fmt.Sprintf(`bind($s, pack_sockaddr_un("\0%[1]s")) && listen($s, 1) or die "$!\n";
		socket(my $c, AF_UNIX, SOCK_STREAM, 0); connect($c, pack_sockaddr_un("\0%[1]s")) or die "$!\n"`, name[1:]))
}

func perl(t *testing.T, does string) string {
	return tool(t, "perl") + ` -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die "$!\n"; ` + does + "'"
}

// TestWallFiles: where a mount is writable that should not be there, the wall stands
// in the way. The bubblewrap here makes one.
func TestWallFiles(t *testing.T) {
	t.Parallel()
	root := tree(t, "w/f")
	stray := stub(t, help(t), `a=$1 fd=$2; shift 2; exec `+tool(t, "bwrap")+` $a $fd --tmpfs /run "$@"`)
	for wall, b := range walled(t, stray) {
		refused := wall && landlock.ABI() >= landlock.Least
		for _, network := range []bool{true, false} {
			spec := cage.Spec{Network: network, Grants: resolve(t, cage.Grants{Write: []string{root + "/w"}})}
			for _, script := range []string{
				"echo x >/run/new", "mkdir /run/new", "ln -s x /run/new", "mkfifo /run/new", "mknod /run/new c 0 0",
				"ln " + root + "/w/f " + root + "/w/g && mv " + root + "/w/g /run/g",
			} {
				r := shell(t, b, spec, script+" && rm -f "+root+"/w/g")
				if want := refused && network; (r.Exit.Code != 0) != want {
					t.Errorf("%s, walled %t, host's network %t: exit %d, want refused %t: %s", script, wall, network, r.Exit.Code, want, r.Stderr)
				}
				os.Remove(root + "/w/g")
			}
		}
	}
}

// TestWallLetsThrough: behind the wall everything works that works without it.
func TestWallLetsThrough(t *testing.T) {
	t.Parallel()
	b := open(t)
	for _, script := range []string{
		"echo x >W/new && echo x >>W/f && : >W/f && rm W/new",
		"mkdir -p W/a/b && mv W/f W/a/b/g && mv W/a/b W/c && ln W/c/g W/hard && ln -s g W/c/soft && rm -r W/c W/a",
		"mkfifo W/fifo && rm W/fifo",
		"echo x >/tmp/new && mv /tmp/new W/moved",
		"echo x >/home/agent/.rc && echo x >>/agent_session.jsonl && : >/agent_session.jsonl",
		"echo x >W/ro/../new && mkdir W/pinned/new && mv W/pinned/new W/pinned/newer",
		"echo x >/dev/shm/new && mv /dev/shm/new /dev/shm/newer && rm /dev/shm/newer",
		"echo x >/dev/null && : >/dev/null && head -c1 /dev/zero >/dev/stderr && echo >/dev/fd/2 && echo x | tee /dev/stderr",
		"echo 1000 >/proc/self/oom_score_adj && echo name >/proc/self/comm",
		"exec 3>W/gone && rm W/gone && echo x >/proc/self/fd/3",
		tool(t, "script") + " -qec 'stty -a </dev/tty && echo x >/dev/tty && test -t 0' /dev/null",
		"sleep 5 & kill $! && ! wait $!",
		"head -n 1 /proc/1/cmdline /proc/net/tcp /etc/passwd",
	} {
		root := tree(t, "w/f", "w/ro/f", "w/pinned/no/f", "agent/tmp/", "agent/home/", "agent/session")
		spec := cage.Spec{
			Network: true, Grants: resolve(t, cage.Grants{Write: []string{root + "/w"}, Read: []string{root + "/w/ro"}, Denied: []string{root + "/w/pinned/no"}}),
			Binds: []cage.Bind{
				{Source: root + "/agent/tmp", Target: "/tmp", Write: true},
				{Source: root + "/agent/home", Target: "/home/agent", Write: true},
				{Source: root + "/agent/session", Target: "/agent_session.jsonl", Write: true},
			},
		}
		mountPoint(t, root+"/agent/tmp", root+"/w")
		script = "set -e; " + strings.ReplaceAll(script, "W/", root+"/w/")
		if r := shell(t, b, spec, script); r.Exit.Code != 0 {
			t.Errorf("%s: exit %d: %s%s", script, r.Exit.Code, r.Stdout, r.Stderr)
		}
		if r := shell(t, b, spec, "echo x >"+root+"/w/ro/f"); r.Exit.Code == 0 {
			t.Error("control: the first wall is gone")
		}
	}
}

// mountPoint makes room in an agent's /tmp for a grant below the host's.
func mountPoint(t *testing.T, tmp, grant string) {
	t.Helper()
	if rel, ok := strings.CutPrefix(grant, "/tmp/"); ok {
		if err := os.MkdirAll(filepath.Join(tmp, rel), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
