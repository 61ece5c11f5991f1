package pi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// npmPackage is pi's package.json and where it lies.
type npmPackage struct {
	Name, Version string
	Dependencies  map[string]string

	dir, entry string
}

// readPackage finds the package that a file belongs to.
func readPackage(file string) (npmPackage, error) {
	dir := filepath.Dir(file)
	data, err := os.ReadFile(filepath.Join(dir, "package.json"))
	for errors.Is(err, fs.ErrNotExist) && dir != "/" && filepath.Base(dir) != "node_modules" {
		dir = filepath.Dir(dir)
		data, err = os.ReadFile(filepath.Join(dir, "package.json"))
	}
	if err != nil {
		return npmPackage{}, fmt.Errorf("no package.json in %s or above it; %s", filepath.Dir(file), remedy)
	}
	p := npmPackage{dir: dir, entry: file}
	if err := json.Unmarshal(data, &p); err != nil {
		return npmPackage{}, fmt.Errorf("cannot read %s/package.json: %w", dir, err)
	}
	if filepath.Base(p.Name) != "pi-coding-agent" {
		return npmPackage{}, fmt.Errorf("%s belongs to the npm package %q, which is another program; %s", file, p.Name, remedy)
	}
	// The unbundled dist/cli.js does the same and starts half a second later.
	bundle := filepath.Join(dir, "dist", "bundle", "cli.js")
	if info, err := os.Stat(bundle); err == nil && info.Mode().IsRegular() {
		p.entry = bundle
	}
	return p, nil
}

// modules is the directory that holds the package and everything it imports:
// the outermost node_modules, or pnpm's global store when the dependencies are
// linked into that. Node.js resolves imports along directories of that name, so
// a pi outside one cannot be shown to a cage.
func (p npmPackage) modules() (string, error) {
	before, _, ok := strings.Cut(p.dir, "/node_modules/")
	if !ok {
		return "", fmt.Errorf("%s is not in a node_modules directory; %s", p.dir, remedy)
	}
	root := before + "/node_modules"
	for name := range p.Dependencies {
		dir := p.dependency(name)
		if dir == "" || within(dir, root) {
			continue
		}
		before, _, ok := strings.Cut(p.dir, "/links/")
		store := before + "/links"
		if !ok || !within(dir, store) {
			return "", fmt.Errorf("%s imports %s from %s, outside of %s; %s", p.dir, name, dir, root, remedy)
		}
		root = store
	}
	return root, nil
}

// dependency returns the real directory that an import of a package leads to,
// or "" when it is not installed (an optional one, or one in the bundle).
func (p npmPackage) dependency(name string) string {
	for dir := p.dir; dir != "/"; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(filepath.Join(dir, "node_modules", name)); err == nil {
			return real
		}
	}
	return ""
}

// key is made of what changes when a file is replaced, even by one of the same
// version: the path, the inode and the time.
func key(version string, files ...string) string {
	h := sha256.New()
	fmt.Fprintln(h, version)
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			continue
		}
		inode := info.Sys().(*syscall.Stat_t).Ino
		fmt.Fprintf(h, "%q %d %d %d\n", file, inode, info.Size(), info.ModTime().UnixNano())
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// within compares components, so that /a/bc is not within /a/b.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}
