package pi_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"pi-mcp/agent/pi"
)

// nvm, fnm and a plain npm prefix: links and node in one bin directory.
func TestFindPrefix(t *testing.T) {
	home := dir(t)
	prefix := filepath.Join(home, ".nvm/versions/node/v24.1.0")
	entry := npm(t, filepath.Join(prefix, "lib/node_modules"), "1.6.0")
	node := binary(t, filepath.Join(prefix, "bin/node"), "v24.1.0")
	link(t, "../lib/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js", filepath.Join(prefix, "bin/pi"))
	link(t, prefix, filepath.Join(home, "current"))
	other := filepath.Dir(binary(t, filepath.Join(home, "other/node"), "v23.0.0"))

	in := find(t, pi.Config{Path: other + ":" + filepath.Join(home, "current/bin")})
	want := &pi.Install{
		Version: "1.6.0",
		Host:    []string{node, entry},
		Caged: []string{"/opt/pi-mcp/bin/node",
			"/opt/pi-mcp/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js"},
		Mounts: []pi.Mount{
			{Source: node, Target: "/opt/pi-mcp/bin/node"},
			{Source: filepath.Join(prefix, "lib/node_modules"), Target: "/opt/pi-mcp/node_modules"},
		},
	}
	if diff := cmp.Diff(want, in, ignoreRest()); diff != "" {
		t.Error(diff)
	}
}

// The unbundled entry, which an older link may lead to, is passed over.
func TestFindBundle(t *testing.T) {
	home := dir(t)
	entry := npm(t, filepath.Join(home, "node_modules"), "1.6.0")
	node := binary(t, filepath.Join(home, "bin/node"), "v22.19.0")
	pkg := filepath.Dir(filepath.Dir(filepath.Dir(entry)))
	in := find(t, pi.Config{Pi: filepath.Join(pkg, "dist/cli.js"), Node: node})
	if in.Host[1] != entry {
		t.Errorf("runs %s, want %s", in.Host[1], entry)
	}
}

// pnpm: a wrapper in sh, and packages linked into a store beside each other.
func TestFindPnpm(t *testing.T) {
	home := dir(t)
	store := filepath.Join(home, "pnpm/global/5/node_modules")
	entry := npm(t, filepath.Join(store, ".pnpm/pi@1.6.0/node_modules"), "1.6.0")
	write(t, filepath.Join(store, ".pnpm/chalk@6/node_modules/chalk/package.json"), "{}")
	link(t, "../../chalk@6/node_modules/chalk", filepath.Join(store, ".pnpm/pi@1.6.0/node_modules/chalk"))
	link(t, "../.pnpm/pi@1.6.0/node_modules/@earendil-works/pi-coding-agent", filepath.Join(store, "@earendil-works/pi-coding-agent"))
	name := write(t, filepath.Join(home, "pnpm/pi"), pnpmWrapper("global/5/node_modules/@earendil-works/pi-coding-agent/dist/bundle/cli.js"))
	node := binary(t, filepath.Join(home, "pnpm/node"), "v24.0.0")

	in := find(t, pi.Config{Path: filepath.Dir(name)})
	if diff := cmp.Diff([]string{node, entry}, in.Host); diff != "" {
		t.Error(diff)
	}
	if want := (pi.Mount{Source: store, Target: "/opt/pi-mcp/node_modules"}); in.Mounts[len(in.Mounts)-1] != want {
		t.Errorf("mounts %v, want %v last", in.Mounts, want)
	}
}

// pnpm's global virtual store keeps each package in a directory of its own.
func TestFindPnpmStore(t *testing.T) {
	home := dir(t)
	links := filepath.Join(home, "store/v10/links")
	entry := npm(t, filepath.Join(links, "@earendil-works/pi-coding-agent/1.6.0/abc/node_modules"), "1.6.0")
	chalk := filepath.Join(links, "@/chalk/6.0.0/def/node_modules/chalk")
	write(t, filepath.Join(chalk, "package.json"), "{}")
	link(t, chalk, filepath.Join(links, "@earendil-works/pi-coding-agent/1.6.0/abc/node_modules/chalk"))
	node := binary(t, filepath.Join(home, "bin/node"), "v24.0.0")

	wrapper := write(t, filepath.Join(home, "bin/pi"), "#!/bin/sh\nexec node \"$basedir_abs\"/'../x.js'\n# cmd-shim-target="+entry+"\n")
	in := find(t, pi.Config{Path: filepath.Dir(wrapper)})
	if in.Host[0] != node {
		t.Errorf("node %s, want the one beside the wrapper", in.Host[0])
	}
	want := "/opt/pi-mcp/links/@earendil-works/pi-coding-agent/1.6.0/abc/node_modules/" +
		"@earendil-works/pi-coding-agent/dist/bundle/cli.js"
	if in.Caged[1] != want {
		t.Errorf("caged entry %s, want %s", in.Caged[1], want)
	}

	must(t, os.Remove(filepath.Join(links, "@earendil-works/pi-coding-agent/1.6.0/abc/node_modules/chalk")))
	link(t, filepath.Dir(write(t, filepath.Join(home, "src/chalk/package.json"), "{}")),
		filepath.Join(links, "@earendil-works/pi-coding-agent/1.6.0/abc/node_modules/chalk"))
	contains(t, refused(t, pi.Config{Pi: entry, Node: node}), "imports chalk from", "src/chalk", "npm install -g")
}

func TestFindCompiled(t *testing.T) {
	home := dir(t)
	file := binary(t, filepath.Join(home, "pi-1.6.0/pi"), "1.6.0")
	in := find(t, pi.Config{Path: filepath.Dir(link(t, file, filepath.Join(home, "bin/pi")))})
	want := &pi.Install{
		Version: "1.6.0",
		Host:    []string{file},
		Caged:   []string{"/opt/pi-mcp/pi/pi"},
		Mounts:  []pi.Mount{{Source: filepath.Dir(file), Target: "/opt/pi-mcp/pi"}},
	}
	if diff := cmp.Diff(want, in, ignoreRest()); diff != "" {
		t.Error(diff)
	}
	if in.Warm() != nil {
		t.Errorf("Warm() = %q for a pi without a compile cache", in.Warm())
	}
}

// What else is in a bin directory is not pi's and stays out of the cage.
func TestFindCompiledAmongOthers(t *testing.T) {
	file := binary(t, filepath.Join(dir(t), "bin/pi"), "1.6.0")
	in := find(t, pi.Config{Pi: file})
	if want := []pi.Mount{{Source: file, Target: "/opt/pi-mcp/bin/pi"}}; !cmp.Equal(want, in.Mounts) {
		t.Errorf("mounts %v, want %v", in.Mounts, want)
	}
}

func TestKeyFollowsFiles(t *testing.T) {
	home := dir(t)
	entry := npm(t, filepath.Join(home, "node_modules"), "1.6.0")
	c := pi.Config{Pi: entry, Node: binary(t, filepath.Join(home, "bin/node"), "v24.0.0")}
	before, again := find(t, c).Key, find(t, c).Key
	if before == "" || before != again || strings.ContainsAny(before, "/.") {
		t.Fatalf("keys %q and %q of the same files", before, again)
	}
	must(t, os.Chtimes(entry, time.Time{}, time.Unix(1, 0)))
	if after := find(t, c).Key; after == before {
		t.Errorf("key %q is the same after the entry changed", after)
	}
}

func TestFindReal(t *testing.T) {
	in := realPi(t)
	if in.Version != "1.6.0" {
		t.Errorf("version %s", in.Version)
	}
	for _, path := range append(in.Caged, in.Mounts[0].Target) {
		if !strings.HasPrefix(path, "/opt/pi-mcp/") {
			t.Errorf("%s shows a path of the host", path)
		}
	}
	if len(in.Mounts) != 1 {
		t.Errorf("mounts %v, want the one node_modules that holds both", in.Mounts)
	}
	out, err := onHost(t, in, dir(t), "--version").Output()
	if strings.TrimSpace(string(out)) != in.Version || err != nil {
		t.Errorf("it answers %q, %v", out, err)
	}
}

// ignoreRest leaves what says where pi is and how it is run.
func ignoreRest() cmp.Option {
	return cmp.Options{cmpopts.IgnoreUnexported(pi.Install{}), cmpopts.IgnoreFields(pi.Install{}, "Key")}
}

func pnpmWrapper(target string) string {
	return `#!/bin/sh
basedir=$(dirname "$(echo "$0" | sed -e 's,\\,/,g')")
if [ -x "$basedir/node" ]; then
  exec "$basedir/node"  "$basedir/` + target + `" "$@"
else
  exec node  "$basedir/` + target + `" "$@"
fi
`
}
