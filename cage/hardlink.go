package cage

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// maxLinked bounds the files whose link counts are read, in all.
const maxLinked = 20_000

// hardLinks warns of closed files that have other names. A rule is about a name:
// under another one that a grant shows, the same file is open. Where the other
// names are, the file system does not tell.
func (c *completion) hardLinks() {
	left := maxLinked
	for _, path := range sorted(c.rules) {
		if above, ok := nearest(c.rules, path); c.programs[path] || c.rules[path] == write ||
			c.rules[path] == read && !(ok && above == write) {
			continue
		}
		n, first := linked(path, &left)
		switch {
		case n == 0:
		case first == path:
			c.warn("%s has other names (hard links): under those, its %s rule does not hold", path, c.rules[path])
		default:
			c.warn("files in %s have other names (hard links): under those, its %s rule does not hold; %d of them, the first is %s",
				path, c.rules[path], n, first)
		}
	}
}

// linked counts the regular files at and below path that have more than one name,
// and returns the first.
func linked(path string, left *int) (n int, first string) {
	_ = filepath.WalkDir(path, func(p string, e fs.DirEntry, err error) error {
		if *left <= 0 {
			return fs.SkipAll
		}
		*left--
		if err != nil || !e.Type().IsRegular() {
			return nil // what cannot be read has no names to count
		}
		info, err := os.Lstat(p)
		if err != nil {
			return nil
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 {
			if n == 0 {
				first = p
			}
			n++
		}
		return nil
	})
	return n, first
}
