package cage_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pi-mcp/cage"
)

// TestDenied asks the kernel, operation by operation. Each script must fail with
// deny and succeed with allow, on a fresh tree each time.
func TestDenied(t *testing.T) {
	write := cage.Grants{Write: []string{"w"}}
	read := cage.Grants{Read: []string{"w"}}
	deny := func(path string) cage.Grants { return cage.Grants{Write: []string{"w"}, Denied: []string{path}} }
	b := open(t)
	for _, test := range []struct {
		name, script string
		deny, allow  cage.Grants
	}{
		{"read without a grant", `cat w/f`, cage.Grants{}, read},
		{"read a sibling of a grant", `cat w/f`, cage.Grants{Read: []string{"wx"}}, read},
		{"read above a grant", `cat w/f`, cage.Grants{Read: []string{"w/d"}}, read},
		{"write in a read grant", `echo x >w/f`, read, write},
		{"create in a read grant", `mkdir w/new`, read, write},
		{"remove from a read grant", `rm w/f`, read, write},
		{"write in a read path inside a write grant", `echo x >w/d/e/f`, cage.Grants{Write: []string{"w"}, Read: []string{"w/d/e"}}, write},
		{"write in a write path inside a read grant", `echo x >w/f && echo x >w/d/f`, cage.Grants{Read: []string{"w"}, Write: []string{"w/d"}}, write},
		{"hard link out of a read grant", `ln wx/f w/link`, cage.Grants{Write: []string{"w"}, Read: []string{"wx"}},
			cage.Grants{Write: []string{"."}}},
		{"F27 read a denied file", `cat w/f`, deny("w/f"), write},
		{"F27 list a denied directory", `ls w/d`, deny("w/d"), write},
		{"read below a denied directory", `cat w/d/e/f`, deny("w/d"), write},
		{"create in a denied directory", `touch w/d/new`, deny("w/d"), write},
		{"replace a denied file", `mv w/g w/f`, deny("w/f"), write},
		{"remove a denied file", `rm -f w/f`, deny("w/f"), write},
		{"open up a denied file", `chmod 644 w/f`, deny("w/f"), write},
		{"open up a denied directory", `chmod 755 w/d`, deny("w/d"), write},
		{"move a denied directory", `mv w/d w/moved`, deny("w/d"), write},
		{"move the parent of a denied file", `mv w/d w/moved`, deny("w/d/e/f"), write},
		{"move the parent of a denied directory", `mv w/d w/moved`, deny("w/d/e"), write},
		{"move the parent of a read-only path", `mv w/d w/moved`, cage.Grants{Write: []string{"w"}, Read: []string{"w/d/e/f"}}, write},
		{"denied in a read grant", `cat w/d/f`, cage.Grants{Read: []string{"w"}, Denied: []string{"w/d"}}, read},
		{"denied among the system's files", `cat /usr/share/../bin/env`, cage.Grants{Read: []string{"w"}, Denied: []string{"/usr/bin/env"}}, read},
		{"F26 denied symlink to a file", `cat w/f`, deny("links/file"), write},
		{"F26 denied symlink to a directory", `ls w/d`, deny("links/dir"), write},
		{"F26 denied symlink inside the grant", `cat w/d/f`, deny("w/inner"), write},
		{"F26 denied symlink to a file outside", `cat wx/f`, deny("w/outer"), cage.Grants{Write: []string{"w"}, Read: []string{"wx"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, side := range []struct {
				grants cage.Grants
				ok     bool
			}{{test.deny, false}, {test.allow, true}} {
				root := tree(t, "w/f", "w/g", "w/d/f", "w/d/e/f", "wx/f", "links/")
				link(t, "../w/f", root+"/links/file")
				link(t, "../w/d", root+"/links/dir")
				link(t, "d/f", root+"/w/inner")
				link(t, root+"/wx/f", root+"/w/outer")
				spec := cage.Spec{Grants: resolve(t, under(root, side.grants))}
				r := shell(t, b, spec, "cd "+root+" && { "+test.script+"; }")
				if ok := r.Exit.Code == 0; ok != side.ok {
					t.Errorf("%v: exit %d, want ok %v: %s", side.grants, r.Exit.Code, side.ok, r.Stderr)
				}
			}
		})
	}
}

// TestPrivateTmp: a grant below the host's /tmp is at its place in the cage's own.
func TestPrivateTmp(t *testing.T) {
	t.Parallel()
	b, root := open(t), tree(t, "agent/tmp/", "project/f", "project/secret")
	spec := cage.Spec{
		Grants: resolve(t, cage.Grants{Write: []string{root + "/project"}, Denied: []string{root + "/project/secret"}}),
		Binds:  []cage.Bind{{Source: root + "/agent/tmp", Target: "/tmp", Write: true}},
	}
	if _, err := b.Run(t.Context(), spec, []string{"/bin/true"}, cage.Limits{}); err == nil {
		t.Fatal("started without a mount point in the agent's tmp")
	}
	dirs, files, err := spec.Grants.Under("/tmp")
	if err != nil || len(dirs) != 1 || len(files) != 0 {
		t.Fatalf("mount points %v %v, %v", dirs, files, err)
	}
	if err := os.MkdirAll(filepath.Join(root, "agent/tmp", dirs[0]), 0o755); err != nil {
		t.Fatal(err)
	}
	output(t, b, spec, "echo own >/tmp/own && echo x >"+root+"/project/new")
	for _, path := range []string{"agent/tmp/own", "project/new"} {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			t.Error(err)
		}
	}
	if r := shell(t, b, spec, "cat "+root+"/project/secret"); r.Exit.Code == 0 {
		t.Error("the denied file can be read")
	}
	if r := shell(t, b, spec, "mv /tmp/"+strings.Split(dirs[0], "/")[0]+" /tmp/moved"); r.Exit.Code == 0 {
		t.Error("the way to the grant can be moved")
	}
}

// TestSwapped: a grant that has become a symlink since Resolve is not mounted.
func TestSwapped(t *testing.T) {
	b, root := open(t), tree(t, "p/w/f", "secret/w/f", "agent/tmp/")
	spec := cage.Spec{Grants: resolve(t, cage.Grants{Write: []string{root + "/p/w"}})}
	output(t, b, spec, "cat "+root+"/p/w/f")
	if err := os.Rename(root+"/p", root+"/old"); err != nil {
		t.Fatal(err)
	}
	link(t, "secret", root+"/p")
	_, err := b.Run(t.Context(), spec, []string{"/bin/cat", root + "/p/w/f"}, cage.Limits{})
	if err == nil || !strings.Contains(err.Error(), "a symlink has appeared") {
		t.Errorf("error %v", err)
	}
}

// TestF29ManyRules: many work, and there is a clear word when they are too many.
func TestF29ManyRules(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 3100 {
		names = append(names, fmt.Sprintf("w/%04d", i))
	}
	b, root := open(t), tree(t, names...)
	g := cage.Grants{Write: []string{"w"}, Denied: names[:200]}
	spec := cage.Spec{Grants: resolve(t, under(root, g))}
	if r := shell(t, b, spec, "cat "+root+"/w/0000 || cat "+root+"/w/0199"); len(r.Stdout) != 0 {
		t.Errorf("denied files can be read: %s", r.Stdout)
	}
	output(t, b, spec, "cat "+root+"/w/0200")
	g.Denied = names
	spec.Grants = resolve(t, under(root, g))
	_, err := b.Run(t.Context(), spec, []string{"/bin/true"}, cage.Limits{})
	if err == nil || !strings.Contains(err.Error(), "whole directories") {
		t.Errorf("error %v", err)
	}
}

// TestOddPaths: names that an argument list or a mount table could trip over.
func TestOddPaths(t *testing.T) {
	t.Parallel()
	b := open(t)
	for _, name := range []string{"with space", "new\nline", `back\slash`, "--bind", "\xff\xfe", "ü", strings.Repeat("n", 255)} {
		root := tree(t, name+"/f", name+"/no/f")
		g := cage.Grants{Write: []string{root + "/" + name}, Denied: []string{root + "/" + name + "/no"}}
		spec := cage.Spec{Grants: resolve(t, g), Dir: root + "/" + name}
		r := shell(t, b, spec, "echo x >f; ls no")
		if got, _ := os.ReadFile(root + "/" + name + "/f"); string(got) != "x\n" || r.Exit.Code == 0 {
			t.Errorf("%q: wrote %q, exit %d: %s", name, got, r.Exit.Code, r.Stderr)
		}
	}
}
