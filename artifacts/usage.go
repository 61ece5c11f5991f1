package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// A Usage is what an agent keeps on the host's disk.
type Usage struct {
	Bytes int64 // of blocks that are allocated: a sparse file counts what it holds, not its length
	Files int64 // names of files, directories and everything else
}

// exceeds reports whether u is over either limit.
func (u Usage) exceeds(most Usage) bool { return u.Bytes > most.Bytes || u.Files > most.Files }

// Usage counts what is in the three directories that an agent can fill: its tmp,
// its home and its pi directory. It stops as soon as there is more than most, and
// then returns what it had counted by then. The bytes of a file with several names
// are counted once. Links are not followed.
//
// It is no quota: it leaves out files that have no name any more. Directories that
// are closed to their owner it opens, see openClosed. What the agent moves meanwhile
// may be left out or counted twice. Memory is bounded, and is about 300 bytes for
// each directory and 50 for each hard link of a tree at the worst.
func (d *Dir) Usage(ctx context.Context, most Usage) (Usage, error) {
	c := counter{most: most, links: map[fileID]bool{}}
	defer c.dropTo(0)
	in, err := d.root.Open(".")
	if err != nil {
		return Usage{}, fmt.Errorf("cannot count what the agent keeps: %w", err)
	}
	defer in.Close()
	for _, name := range []string{tmpDir, homeDir, piDir} {
		top, err := openClosed(in, name)
		if err == nil {
			err = c.tree(ctx, top)
		}
		if err != nil && !errors.Is(err, errEnough) {
			return Usage{}, fmt.Errorf("cannot count what the agent keeps in %s: %w", name, err)
		}
		if c.seen.exceeds(most) {
			break
		}
	}
	return c.seen, nil
}

// errEnough ends a count that is over its limits.
var errEnough = errors.New("there is more than the limits allow")

// Bounds of one count.
const (
	maxLinks = 200_000  // hard links that are remembered; further ones count each
	maxNames = 64 << 20 // bytes of names of directories still to be read; what is in further ones is left out
	maxOpen  = 16       // levels of the tree that are held open, beside the deepest
)

// A fileID tells files apart.
type fileID struct{ dev, ino uint64 }

// A counter goes through trees depth first. A path of any length can be made, and
// going down from the top again for each directory would take the square of the
// depth. So it goes up by "..", and looks whether it is where it came from.
type counter struct {
	most, seen Usage
	links      map[fileID]bool
	stack      []level // from the top to the directory that is being read
	held       int     // bytes of all names in stack
}

// A level is a directory whose entries have been counted.
type level struct {
	id   fileID
	dir  *os.File // nil from level maxOpen on, except for the last one
	todo []string // its directories that have not been read
}

// tree counts what is below top, which it takes over.
func (c *counter) tree(ctx context.Context, top *os.File) error {
	if err := c.enter(ctx, top); err != nil {
		return err
	}
	for len(c.stack) > 0 {
		at := &c.stack[len(c.stack)-1]
		if len(at.todo) == 0 {
			c.leave()
			continue
		}
		name := at.todo[len(at.todo)-1]
		at.todo = at.todo[:len(at.todo)-1]
		c.held -= len(name)
		dir, err := openClosed(at.dir, name)
		if err != nil && (absentDir(err) || errors.Is(err, unix.EACCES)) {
			continue
		}
		if err == nil {
			err = c.enter(ctx, dir)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// enter makes dir the deepest level and counts what is in it. It takes it over.
func (c *counter) enter(ctx context.Context, dir *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		dir.Close()
		return err
	}
	if n := len(c.stack); n > maxOpen {
		c.stack[n-1].dir.Close()
		c.stack[n-1].dir = nil
	}
	c.stack = append(c.stack, level{id: fileID{st.Dev, st.Ino}, dir: dir})
	at := &c.stack[len(c.stack)-1]
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		names, err := dir.Readdirnames(batch)
		for _, name := range names {
			c.count(at, name)
			if c.seen.exceeds(c.most) {
				return errEnough
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return absent(err)
		}
	}
}

// count counts one name in a directory.
func (c *counter) count(at *level, name string) {
	var st unix.Stat_t
	if statClosed(at.dir, name, &st) != nil {
		return // removed since it was read
	}
	c.seen.Files++
	dir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	id := fileID{st.Dev, st.Ino}
	if !dir && st.Nlink > 1 {
		if c.links[id] {
			return
		}
		if len(c.links) < maxLinks {
			c.links[id] = true
		}
	}
	c.seen.Bytes += st.Blocks * 512 // the unit of st_blocks, whatever the file system's is
	if dir && c.held+len(name) <= maxNames {
		at.todo = append(at.todo, name)
		c.held += len(name)
	}
}

// leave goes up one level. Where the directory has been moved meanwhile, it goes up
// to one that is still open.
func (c *counter) leave() {
	n := len(c.stack) - 1
	if n > 0 && c.stack[n-1].dir == nil {
		above := &c.stack[n-1]
		dir, err := openClosed(c.stack[n].dir, "..")
		if err != nil || !above.is(dir) {
			if err == nil {
				dir.Close()
			}
			c.dropTo(maxOpen)
			return
		}
		above.dir = dir
	}
	c.dropTo(n)
}

// is reports whether dir is this level's.
func (l *level) is(dir *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(dir.Fd()), &st) == nil && l.id == fileID{st.Dev, st.Ino}
}

// dropTo gives up all levels from n on.
func (c *counter) dropTo(n int) {
	for _, l := range c.stack[n:] {
		if l.dir != nil {
			l.dir.Close()
		}
		for _, name := range l.todo {
			c.held -= len(name)
		}
	}
	clear(c.stack[n:])
	c.stack = c.stack[:n]
}

// openDirAt opens a directory in an open one, and through no symlink.
func openDirAt(dir *os.File, name string) (*os.File, error) {
	fd, err := unix.Openat(int(dir.Fd()), name,
		unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
