package cage

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"pi-mcp/cage/cageinit"
)

// shmSize bounds the only memory-backed place that a program can write. Without a
// size a tmpfs takes half of the machine's memory.
const shmSize = "67108864"

// tops are the directories of programs and libraries beside /usr. Where /usr is
// merged they are symlinks, and are made as such: no mount may cross a symlink.
var tops = [...]string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// etc are the settings that programs need to run at all: none holds a secret, and
// what does (shadow, ssl/private, sudoers) is left out by not being named. ssh_config
// is left out because ssh refuses one that belongs to nobody, as it would here.
var etc = [...]string{
	"alternatives", "bash.bashrc", "ca-certificates", "ca-certificates.conf", "crypto-policies", "gai.conf",
	"host.conf", "hosts", "inputrc", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "magic", "mime.types",
	"pki/ca-trust", "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf", "profile", "profile.d", "protocols",
	"services", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "static", "timezone",
}

// A host is what a plan depends on besides its Spec.
type host struct {
	features features
	uid, gid int
	void     string            // an empty file that nobody may read
	program  string            // the first process of every cage
	links    map[string]string // tops that are symlinks, and where they lead
	dirs     []string          // tops that are directories
	etc      []string          // those of etc that exist
	resolv   string            // the content of resolv.conf
	kinds    map[string]bool   // the paths of the grants: is it a directory
	leads    map[string]string // the other spellings of grants, and where they lead
}

// survey looks at the host for one start.
func survey(f features, void, program string, s Spec) (host, error) {
	h := host{
		features: f, uid: os.Getuid(), gid: os.Getgid(), void: void, program: program, links: make(map[string]string),
		leads: s.leads(),
	}
	for _, top := range tops {
		if to, err := os.Readlink("/" + top); err == nil {
			h.links[top] = to
		} else if info, err := os.Lstat("/" + top); err == nil && info.IsDir() {
			h.dirs = append(h.dirs, top)
		}
	}
	for _, name := range etc {
		if _, err := os.Stat("/etc/" + name); err == nil {
			h.etc = append(h.etc, name)
		}
	}
	// A copy, made anew at every start: the file is often a symlink into /run, whose
	// directory also holds the resolver's sockets, and a mount of it goes stale.
	if content, err := os.ReadFile("/etc/resolv.conf"); err == nil {
		h.resolv = string(content)
	}
	var err error
	h.kinds, err = s.Grants.kinds()
	return h, err
}

// kinds tells directories from files. A denied path may have gone: whether that
// matters depends on what shows it, see mask.
func (g Grants) kinds() (map[string]bool, error) {
	kinds := make(map[string]bool)
	for _, r := range g.rules() {
		info, err := os.Lstat(r.path)
		if err != nil && r.mode != denied {
			return nil, r.unreachable(err)
		}
		kinds[r.path] = err == nil && info.IsDir()
	}
	return kinds, nil
}

// root builds what every cage has. Nothing of it can be written but /dev/shm.
func (p *plan) root(s Spec) {
	p.bind("--ro-bind", input{path: p.host.program, program: true}, cageinit.Path)
	p.system("/usr")
	for _, top := range tops {
		if to, ok := p.host.links[top]; ok {
			p.add("--symlink", to, "/"+top)
		}
	}
	for _, top := range p.host.dirs {
		p.system("/" + top)
	}
	for _, name := range p.host.etc {
		p.system("/etc/" + name)
	}
	p.identity()
	p.names(s.Network)
	// Root needs no capability to write most of /proc/sys, and core_pattern names a
	// program that the kernel runs outside every cage.
	p.add("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", "--dev", "/dev", "--perms", "1777")
	p.addIf("--size", shmSize)
	p.add("--tmpfs", "/dev/shm", "--remount-ro", "/dev")
	for _, target := range []string{"/proc", "/proc/sys", "/dev", "/dev/shm"} {
		p.expect(want{target: target, number: -1, readOnly: target == "/dev" || target == "/proc/sys"})
	}
	p.add("--dir", "/run", "--symlink", "../run", "/var/run", "--dir", "/tmp")
	if s.Grants.within("/var/tmp") {
		p.add("--dir", "/var/tmp")
	} else {
		p.add("--symlink", "../tmp", "/var/tmp")
	}
}

// within reports whether a grant lies below dir, which then must be a directory.
func (g Grants) within(dir string) bool {
	return slices.ContainsFunc(g.rules(), func(r rule) bool {
		return r.mode != denied && below(dir, r.path)
	})
}

// system shows a path that only the host's administrator can change, so the path
// itself is as good as a descriptor.
func (p *plan) system(path string) {
	p.add("--ro-bind", path, path)
	p.expect(want{target: path, same: input{path: path}, number: -1, readOnly: true})
	p.mounted[path] = mount{from: input{path: path}, target: path, mode: read}
}

// identity makes up the users. The program runs as the server's user, so that what
// it writes into a grant belongs to the right one.
func (p *plan) identity() {
	uid, gid := p.host.uid, p.host.gid
	passwd := []string{"root:x:0:0:root:/root:/bin/sh", "nobody:x:65534:65534:nobody:/nonexistent:/bin/false"}
	group := []string{"root:x:0:", "nogroup:x:65534:"}
	name := "agent"
	if uid == 0 {
		name, passwd = "root", passwd[1:]
	}
	passwd = append([]string{fmt.Sprintf("%s:x:%d:%d:agent:/home/agent:/bin/sh", name, uid, gid)}, passwd...)
	if gid != 0 {
		group = append([]string{fmt.Sprintf("agent:x:%d:", gid)}, group...)
	}
	p.file("/etc/passwd", strings.Join(passwd, "\n")+"\n")
	p.file("/etc/group", strings.Join(group, "\n")+"\n")
	p.file("/etc/machine-id", "")
}

// names says where names are looked up: without the host's network only in files.
func (p *plan) names(network bool) {
	hosts := "files"
	if network {
		hosts = "files dns"
		p.file("/etc/resolv.conf", p.host.resolv)
	}
	p.file("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: "+hosts+"\n")
}
