package pi_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"pi-mcp/agent/pi"
)

func TestFindNothing(t *testing.T) {
	home := dir(t)
	contains(t, refused(t, pi.Config{Path: home + ":relative/bin"}),
		`no executable "pi" in PATH`, home, "npm install -g", "PI_MCP_PI")
	contains(t, refused(t, pi.Config{Pi: home + "/pi"}), home+"/pi", "PI_MCP_PI")

	write(t, home+"/data", "x")
	must(t, os.Chmod(home+"/data", 0o644))
	contains(t, refused(t, pi.Config{Pi: home + "/data"}), "not executable")
	contains(t, refused(t, pi.Config{Pi: home}), "is a directory")
	contains(t, refused(t, pi.Config{Pi: write(t, home+"/text", "hello")}), "neither a program nor a script")
	contains(t, refused(t, pi.Config{Pi: write(t, home+"/py", "#!/usr/bin/env -S python3 -u\n")}), `"python3"`)
}

func TestFindBadLinks(t *testing.T) {
	home := dir(t)
	contains(t, refused(t, pi.Config{Path: filepath.Dir(link(t, "nowhere", home+"/a/pi"))}),
		home+"/a/pi", home+"/a/nowhere", "does not exist")

	link(t, "pi", home+"/b/pi2")
	contains(t, refused(t, pi.Config{Path: filepath.Dir(link(t, "pi2", home+"/b/pi"))}), "circle")

	gone := write(t, home+"/c/pi", pnpmWrapper("node_modules/x/cli.js"))
	contains(t, refused(t, pi.Config{Pi: gone}), gone+" runs a script that is missing", home+"/c/node_modules", "npm install -g")

	// A circle of directories is met in the middle of a path.
	link(t, "y", home+"/x")
	contains(t, refused(t, pi.Config{Pi: filepath.Join(link(t, "x", home+"/y"), "pi")}), "circle")
}

// A .. behind a symlink is meant from where the symlink leads.
func TestFindParentOfLink(t *testing.T) {
	home := dir(t)
	file := binary(t, home+"/real/pi-1.6.0/pi", "1.6.0")
	link(t, home+"/real/deep", home+"/short")
	must(t, os.Mkdir(home+"/real/deep", 0o755))
	in := find(t, pi.Config{Pi: link(t, "short/../pi-1.6.0/pi", home+"/pi")})
	if in.Host[0] != file {
		t.Errorf("runs %s, want %s", in.Host[0], file)
	}
}

// A shim picks the version by what a cage does not have. Each is refused with
// the name of the manager; the program itself is the control (TestFind...).
func TestFindShims(t *testing.T) {
	for manager, make := range map[string]func(home string) string{
		"asdf which": func(home string) string {
			return write(t, home+"/.asdf/shims/pi", "#!/usr/bin/env bash\n# asdf-plugin: nodejs 24.1.0\nexec asdf exec \"pi\" \"$@\"\n")
		},
		"nodenv which": func(home string) string {
			return write(t, home+"/.nodenv/shims/pi", "#!/usr/bin/env bash\nexec \"/home/u/.nodenv/libexec/nodenv\" exec pi \"$@\"\n")
		},
		"mise which": func(home string) string {
			return link(t, binary(t, home+"/.local/bin/mise", "2026.1.1"), home+"/.local/share/mise/shims/pi")
		},
		"volta which": func(home string) string {
			return link(t, binary(t, home+"/.volta/volta-shim", "2.0.0"), home+"/.volta/bin/pi")
		},
		"name the file that it runs": func(home string) string {
			return write(t, home+"/bin/pi", "#!/bin/sh\nexec /somewhere/else \"$@\"\n")
		},
	} {
		contains(t, refused(t, pi.Config{Pi: make(dir(t))}), manager, "PI_MCP_PI")
	}
}

func TestFindOtherPrograms(t *testing.T) {
	home := dir(t)
	other := write(t, home+"/node_modules/pi-tool/cli.js", "#!/usr/bin/env node\n")
	write(t, home+"/node_modules/pi-tool/package.json", `{"name":"pi-tool","version":"9.0.0"}`)
	contains(t, refused(t, pi.Config{Pi: other}), `"pi-tool"`, "another program")

	contains(t, refused(t, pi.Config{Pi: write(t, home+"/loose/cli.js", "#!/usr/bin/env node\n")}), "no package.json")

	checkout := npm(t, home+"/src", "1.6.0")
	contains(t, refused(t, pi.Config{Pi: checkout}), "not in a node_modules directory", "npm install -g")

	contains(t, refused(t, pi.Config{Pi: binary(t, home+"/calc/pi", "pi 3.14")}), "not a version")
	contains(t, refused(t, pi.Config{Pi: binary(t, home+"/old/pi", "1.3.9")}), "1.3.9", "too old", "1.4.0")
}

func TestFindOldPi(t *testing.T) {
	home := dir(t)
	node := binary(t, home+"/bin/node", "v24.0.0")
	contains(t, refused(t, pi.Config{Pi: npm(t, home+"/a/node_modules", "0.74.2"), Node: node}), "0.74.2", "1.4.0", "npm install")
	if in := find(t, pi.Config{Pi: npm(t, home+"/b/node_modules", "1.4.0"), Node: node}); in.Version != "1.4.0" {
		t.Errorf("version %s", in.Version)
	}
}

// Debian's node is too old; the error says so of each that was looked at, and
// the one in an npm package beside pi is found.
func TestFindNode(t *testing.T) {
	home := dir(t)
	entry := npm(t, home+"/node_modules", "1.6.0")
	path := filepath.Dir(binary(t, home+"/usr/bin/node", "v22.18.0"))
	write(t, home+"/shims/node", "#!/bin/sh\nexec asdf exec node \"$@\"\n")
	c := pi.Config{Pi: entry, Path: path + ":" + home + "/shims:" + home + "/none"}
	contains(t, refused(t, c), "Node.js 22.19.0", path+"/node has version 22.18.0", "asdf", home+"/none", "PI_MCP_NODE")

	spare := binary(t, home+"/node_modules/node-linux-"+arch()+"/bin/node", "v24.22.3")
	in := find(t, c)
	if in.Host[0] != spare || len(in.Mounts) != 1 {
		t.Errorf("node %s with mounts %v, want the one in node_modules", in.Host[0], in.Mounts)
	}

	c.Node = path + "/node"
	contains(t, refused(t, c), "named", "22.18.0")
	c.Node = "node" // by name: the first in PATH
	contains(t, refused(t, c), "named", "22.18.0")
}

func TestFindEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	home := dir(t)
	binary(t, home+"/bin/node", "v24.0.0")
	_, err := pi.Find(ctx, pi.Config{Pi: npm(t, home+"/node_modules", "1.6.0"), Path: home + "/bin"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}
