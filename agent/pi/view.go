package pi

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// inside is where things that do not care where they lie are shown in a cage.
const inside = "/opt/pi-mcp"

// view collects what a cage must show. Its methods return the path in the cage.
type view struct{ mounts []Mount }

// inSystem reports whether every cage shows the path anyway.
func inSystem(path string) bool {
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"} {
		if within(path, dir) {
			return true
		}
	}
	return false
}

// fixed returns the directory that must be shown at its own path because the
// programs in it have absolute paths compiled in, or "".
func fixed(path string) string {
	for _, store := range []string{"/nix/store", "/gnu/store"} {
		if within(path, store) {
			return store
		}
	}
	if prefix, _, ok := strings.Cut(path, "/Cellar/"); ok { // Homebrew
		return prefix
	}
	return ""
}

// tree shows a directory of packages and returns where the entry in it is.
func (v *view) tree(root, entry string) string {
	if inSystem(root) {
		return entry
	}
	if dir := fixed(root); dir != "" {
		v.add(dir, dir)
		return entry
	}
	target := inside + "/" + filepath.Base(root)
	v.add(root, target)
	return target + strings.TrimPrefix(entry, root)
}

// program shows one program and the libraries that lie outside of the system's
// directories.
func (v *view) program(file string) (string, error) {
	for _, m := range v.mounts {
		if within(file, m.Source) {
			return m.Target + strings.TrimPrefix(file, m.Source), nil
		}
	}
	if inSystem(file) {
		return file, nil
	}
	if dir := fixed(file); dir != "" {
		v.add(dir, dir)
		return file, nil
	}
	target := inside + "/bin/" + filepath.Base(file)
	v.add(file, target)
	return target, v.libraries(file, filepath.Dir(target))
}

// compiled shows a pi that is a program, with the data files beside it.
func (v *view) compiled(file string) (string, error) {
	dir := filepath.Dir(file)
	if inSystem(file) || fixed(file) != "" || shared(dir) {
		return v.program(file)
	}
	v.add(dir, inside+"/pi")
	target := inside + "/pi/" + filepath.Base(file)
	return target, v.libraries(file, filepath.Dir(target))
}

// shared reports whether a directory holds other things than pi, which a cage
// must not see: a bin directory, a home directory, one below the root.
func shared(dir string) bool {
	home, _ := os.UserHomeDir()
	return filepath.Base(dir) == "bin" || filepath.Dir(dir) == "/" || dir == home
}

// libraries shows what the dynamic loader will look for. newDir is where the
// program's own directory will be, which $ORIGIN stands for.
func (v *view) libraries(file, newDir string) error {
	f, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("cannot read the program %s: %w", file, err)
	}
	defer f.Close()
	if loader := interpreter(f); loader != "" && !inSystem(loader) {
		dir := filepath.Dir(loader)
		if top := fixed(loader); top != "" {
			dir = top
		}
		v.add(dir, dir)
	}
	// A static program has no dynamic section, which reads as no libraries.
	needed, _ := f.ImportedLibraries()
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		lists, _ := f.DynString(tag)
		for _, entry := range strings.Split(strings.Join(lists, ":"), ":") {
			v.library(entry, filepath.Dir(file), newDir, needed)
		}
	}
	return nil
}

// library shows one directory of a search path if a needed library is in it.
func (v *view) library(entry, oldDir, newDir string, needed []string) {
	expand := func(origin string) string {
		return filepath.Clean(strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin).Replace(entry))
	}
	source, target := expand(oldDir), expand(newDir)
	if !filepath.IsAbs(source) || inSystem(target) {
		return
	}
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(source, name))
		return err == nil
	}
	if real, err := filepath.EvalSymlinks(source); err == nil && slices.ContainsFunc(needed, has) {
		v.add(real, target)
	}
}

func interpreter(f *elf.File) string {
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP || p.Filesz > 4096 {
			continue
		}
		name := make([]byte, p.Filesz)
		if _, err := p.ReadAt(name, 0); err == nil {
			return strings.TrimRight(string(name), "\x00")
		}
	}
	return ""
}

// add keeps parents before children and leaves out what is already shown.
func (v *view) add(source, target string) {
	for _, m := range v.mounts {
		if within(target, m.Target) && m.Source+strings.TrimPrefix(target, m.Target) == source {
			return
		}
	}
	v.mounts = append(v.mounts, Mount{source, target})
	slices.SortFunc(v.mounts, func(a, b Mount) int { return strings.Compare(a.Target, b.Target) })
}
