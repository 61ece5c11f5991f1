package pi_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/agent/pi"
)

// compileNode makes a node in C that needs a library, found by its RUNPATH.
func compileNode(t *testing.T, prefix, runpath string) string {
	t.Helper()
	node, lib := prefix+"/bin/node", prefix+"/lib/libanswer.so"
	must(t, os.MkdirAll(prefix+"/bin", 0o755))
	lsrc := write(t, prefix+"/lib/answer.c", `const char *answer(void) { return "v24.0.0"; }`)
	src := write(t, prefix+"/node.c", `#include <stdio.h>
const char *answer(void);
int main(void) { puts(answer()); return 0; }`)
	for _, args := range [][]string{
		{"-shared", "-fPIC", "-Wl,-soname,libanswer.so", "-o", lib, lsrc},
		{"-o", node, src, lib, "-Wl,--enable-new-dtags,-rpath," + runpath},
	} {
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v: %s", err, out)
		}
	}
	return node
}

// A node whose libraries lie beside it, as conda's do, finds them in a cage.
func TestFindLibraries(t *testing.T) {
	for name, place := range map[string]func(prefix string) (string, string){
		"relative to the program": func(string) (string, string) { return "/none:$ORIGIN/../lib", "/opt/pi-mcp/lib" },
		"absolute":                func(prefix string) (string, string) { return prefix + "/lib", prefix + "/lib" },
	} {
		t.Run(name, func(t *testing.T) {
			home := dir(t)
			prefix := home + "/conda"
			runpath, target := place(prefix)
			node := compileNode(t, prefix, runpath)
			in := find(t, pi.Config{Pi: npm(t, home+"/node_modules", "1.6.0"), Node: node})
			want := pi.Mount{Source: prefix + "/lib", Target: target}
			if !contained(in.Mounts, want) {
				t.Fatalf("mounts %v lack %v", in.Mounts, want)
			}
			out, err := newBox(t, in, nil).command(t, in.Caged[0]).CombinedOutput()
			if strings.TrimSpace(string(out)) != "v24.0.0" || err != nil {
				t.Errorf("in a cage it answers %q, %v", out, err)
			}

			in.Mounts = []pi.Mount{{Source: node, Target: in.Caged[0]}} // the control
			if out, err := newBox(t, in, nil).command(t, in.Caged[0]).CombinedOutput(); err == nil {
				t.Errorf("without the library it answers %q", out)
			}
		})
	}
}

func contained(mounts []pi.Mount, m pi.Mount) bool {
	for _, have := range mounts {
		if have == m {
			return true
		}
	}
	return false
}

// Homebrew compiles its own paths into its programs: everything stays in place,
// under one mount.
func TestFindHomebrew(t *testing.T) {
	brew := dir(t) + "/linuxbrew"
	node := binary(t, brew+"/Cellar/node/24.1.0/bin/node", "v24.1.0")
	entry := npm(t, brew+"/lib/node_modules", "1.6.0")
	link(t, "../Cellar/node/24.1.0/bin/node", brew+"/bin/node")
	link(t, "../lib/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js", brew+"/bin/pi")
	in := find(t, pi.Config{Path: brew + "/bin"})
	want := &pi.Install{
		Version: "1.6.0",
		Host:    []string{node, entry},
		Caged: []string{node,
			"/opt/pi-mcp/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js"},
		Mounts: []pi.Mount{
			{Source: brew + "/lib/node_modules", Target: "/opt/pi-mcp/node_modules"},
			{Source: brew, Target: brew},
		},
	}
	if diff := cmp.Diff(want, in, ignoreRest()); diff != "" {
		t.Error(diff)
	}

	// A pi that was itself poured into the Cellar.
	entry = npm(t, brew+"/Cellar/pi/1.6.0/libexec/lib/node_modules", "1.6.0")
	in = find(t, pi.Config{Pi: entry, Path: brew + "/bin"})
	if diff := cmp.Diff([]string{node, entry}, in.Caged); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]pi.Mount{{Source: brew, Target: brew}}, in.Mounts); diff != "" {
		t.Error(diff)
	}
}

// A program that answers --version with more than a version is another one.
func TestFindNotNode(t *testing.T) {
	entry := npm(t, dir(t)+"/node_modules", "1.6.0")
	contains(t, refused(t, pi.Config{Pi: entry, Node: "/usr/bin/env"}), "/usr/bin/env", "not a version")
	contains(t, refused(t, pi.Config{Pi: entry, Node: "/usr/bin/false"}), "/usr/bin/false --version failed")
}

func TestFindNodeByInterpreterLine(t *testing.T) {
	home := dir(t)
	node := binary(t, home+"/deep/node", "v24.0.0")
	entry := npm(t, home+"/node_modules", "1.6.0")
	write(t, entry, "#!"+node+"\n")
	if in := find(t, pi.Config{Pi: entry}); in.Host[0] != node {
		t.Errorf("node %s, want %s", in.Host[0], node)
	}
	write(t, entry, "#!/usr/bin/env -S A=b node --no-warnings\n")
	path := filepath.Dir(binary(t, home+"/path/node", "v24.0.0"))
	if in := find(t, pi.Config{Pi: entry, Path: path}); in.Host[0] != path+"/node" {
		t.Errorf("node %s, want the one in PATH", in.Host[0])
	}
}

// Nothing that stands in for node may be run in its place.
func TestFindNodeShims(t *testing.T) {
	home := dir(t)
	entry := npm(t, home+"/node_modules", "1.6.0")
	for file, words := range map[string]string{
		binary(t, home+"/a/snap", "v24.0.0"):                            "snap",
		binary(t, home+"/b/volta-shim", "v24.0.0"):                      "shim of volta",
		binary(t, home+"/c/mise", "v24.0.0"):                            "shim of mise",
		write(t, home+"/d/run", "#!/usr/bin/env node\n"):                "is a script",
		write(t, home+"/e/run", pnpmWrapper("../node/bin/node-bin.js")): "is a script",
	} {
		name := link(t, file, filepath.Dir(file)+"/node")
		contains(t, refused(t, pi.Config{Pi: entry, Node: name}), words)
		contains(t, refused(t, pi.Config{Pi: entry, Path: filepath.Dir(name)}), words, "nothing else found")
	}
	control := binary(t, home+"/f/node", "v24.0.0")
	find(t, pi.Config{Pi: entry, Node: control})
}
