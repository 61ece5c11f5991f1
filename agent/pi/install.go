// Package pi knows pi as it lies on disk: where it is installed and how it is
// run on the host and inside a cage, whether it has credentials for a provider,
// and what the files of one agent's pi directory say. It starts no agent and
// does not know what a cage is; it says what must be visible in one.
package pi

import (
	"context"
	"fmt"
	"path/filepath"
)

// Config says where Find looks.
type Config struct {
	// Pi is the name or path of pi. Zero means "pi". A name is looked up in Path.
	Pi string
	// Node is the name or path of Node.js. Zero means that Find searches. A
	// compiled pi needs none.
	Node string
	// Path is searched like $PATH; relative entries are passed over, since what
	// they mean changes with the working directory. Zero finds no names.
	Path string
}

// Mount is a file or directory of the host that must be visible, read-only, at
// Target inside a cage. Source has no symlink in it.
type Mount struct{ Source, Target string }

// Install is one pi that can be run. The exported fields do not change after
// Find; the methods may be called from many goroutines.
type Install struct {
	// Version is pi's own, such as "1.6.0".
	Version string
	// Host and Caged are the first arguments of a command that runs pi on the
	// host and in a cage which has Mounts and the host's /usr, /bin, /sbin and
	// /lib*. All paths are absolute: PATH plays no part.
	Host, Caged []string
	// Mounts has parents before children. It shows no path of a home directory
	// unless a package manager compiled one into its programs.
	Mounts []Mount
	// Key names the files of this install: another version, another Node.js or
	// the same files installed again have another Key. It can be a file name.
	Key string

	auth  ledger
	first string   // the file that the name of pi led to
	files []string // what Key is made of
}

// The oldest releases that work. pi's own package.json asks for the Node.js.
const (
	oldestPi   = "1.4.0"
	oldestNode = "22.19.0"
)

const remedy = "install pi with `npm install -g @earendil-works/pi-coding-agent`, " +
	"or name the right one with --pi or PI_MCP_PI"

// Find finds pi and what it needs to run. It runs at most `node --version` and,
// for a compiled pi, `pi --version`. Every error is fit to be shown to the
// operator: it names what was looked for, where, and what to do.
func Find(ctx context.Context, c Config) (*Install, error) {
	if c.Pi == "" {
		c.Pi = "pi"
	}
	name, err := lookUp(c.Pi, c.Path)
	if err != nil {
		return nil, fmt.Errorf("cannot find pi: %w; %s", err, remedy)
	}
	way, err := walk(name)
	if err != nil {
		return nil, fmt.Errorf("cannot find pi: %w; %s", err, remedy)
	}
	prog, err := inspect(way.file)
	if err != nil {
		return nil, fmt.Errorf("cannot use pi at %s: %w", name, err)
	}
	find := found
	if prog.shim != "" {
		find = findBehindShim
	}
	install, err := find(ctx, c, way, prog)
	if err != nil {
		return nil, err
	}
	install.first = way.file
	return install, nil
}

// Current reports whether the install is still what Find would find for its pi:
// the name leads to the same file, and no file has changed. It runs nothing. A
// Node.js that has appeared since in a place that goes first is not seen.
func (in *Install) Current(c Config) bool {
	if c.Pi == "" {
		c.Pi = "pi"
	}
	name, err := lookUp(c.Pi, c.Path)
	if err != nil {
		return false
	}
	way, err := walk(name)
	return err == nil && way.file == in.first && key(in.Version, in.files...) == in.Key
}

// findBehindShim goes on with the script that a package manager's own shell
// wrapper runs. Its path stays on the way: Node.js may lie beside it.
func findBehindShim(ctx context.Context, c Config, way way, prog program) (*Install, error) {
	next, err := walk(prog.shim)
	if err != nil {
		return nil, fmt.Errorf("cannot find pi: %s runs a script that is missing: %w; %s", way.file, err, remedy)
	}
	next.names = append(way.names, next.names...)
	prog, err = inspect(next.file)
	if err == nil && !prog.script {
		err = fmt.Errorf("%s is not a script for Node.js", next.file)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use pi at %s: %w", way.names[0], err)
	}
	return found(ctx, c, next, prog)
}

func found(ctx context.Context, c Config, way way, prog program) (*Install, error) {
	build := compiled
	if prog.script {
		build = scripted
	}
	install, err := build(ctx, c, way, prog)
	if err != nil {
		return nil, fmt.Errorf("cannot use pi at %s: %w", way.names[0], err)
	}
	install.Key = key(install.Version, install.files...)
	if older(install.Version, oldestPi) {
		return nil, fmt.Errorf("cannot use pi at %s: version %s is too old, %s or newer is needed; %s",
			way.names[0], install.Version, oldestPi, remedy)
	}
	return install, nil
}

// scripted is the usual case: a bundle in a node_modules directory, and Node.js.
func scripted(ctx context.Context, c Config, way way, prog program) (*Install, error) {
	pkg, err := readPackage(way.file)
	if err != nil {
		return nil, err
	}
	modules, err := pkg.modules()
	if err != nil {
		return nil, err
	}
	node, err := findNode(ctx, c, way, prog, modules)
	if err != nil {
		return nil, err
	}
	var view view
	entry := view.tree(modules, pkg.entry)
	program, err := view.program(node)
	if err != nil {
		return nil, err
	}
	return &Install{
		Version: pkg.Version,
		Host:    []string{node, pkg.entry},
		Caged:   []string{program, entry},
		Mounts:  view.mounts,
		files:   []string{node, pkg.entry, filepath.Join(pkg.dir, "package.json")},
	}, nil
}

// compiled is a pi that carries its own runtime, with its data files beside it.
func compiled(ctx context.Context, _ Config, way way, _ program) (*Install, error) {
	version, err := askVersion(ctx, way.file)
	if err != nil {
		return nil, err
	}
	var view view
	program, err := view.compiled(way.file)
	if err != nil {
		return nil, err
	}
	return &Install{
		Version: version,
		Host:    []string{way.file},
		Caged:   []string{program},
		Mounts:  view.mounts,
		files:   []string{way.file},
	}, nil
}
