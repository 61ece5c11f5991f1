package artifacts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// MaxEntries is the most entries that one Listing holds.
const MaxEntries = 5000

// An Entry is one file, directory or other thing in an agent's tmp. In Path
// and Target a byte that is no UTF-8 is shown as \xNN; such a name can be
// listed but not be passed to read_tmp. All else, newlines too, is as it is.
type Entry struct {
	Path   string  `json:"path" jsonschema:"path relative to the agent's tmp"`
	Type   string  `json:"type" jsonschema:"file, directory, symlink, fifo, socket, device or other"`
	Size   int64   `json:"size" jsonschema:"bytes"`
	Mtime  float64 `json:"mtime" jsonschema:"Unix seconds"`
	Target string  `json:"target,omitempty" jsonschema:"what a symlink holds"`
}

// A Listing is what is below a directory of an agent's tmp, sorted by path. A
// truncated one holds the entries nearest to the directory that was listed.
type Listing struct {
	Path      string   `json:"path" jsonschema:"the listed directory, relative to the agent's tmp; . is tmp itself"`
	Recursive bool     `json:"recursive"`
	Count     int      `json:"count" jsonschema:"number of entries"`
	Truncated bool     `json:"truncated" jsonschema:"there is more than the entries show"`
	Entries   []Entry  `json:"entries"`
	Warnings  []string `json:"warnings"`
}

// ListTmp lists the directory at rel ("" is tmp itself), with everything below
// it when recursive. Links are shown, never followed. At most most entries are
// returned (clamped to 1..MaxEntries), and no more than fit a response; Truncated
// tells when that left something out. Memory is bounded by that too, whatever
// the tree; a directory of any size is read through, so that the entries
// are the first by name.
func (d *Dir) ListTmp(ctx context.Context, rel string, recursive bool, most int) (Listing, error) {
	at, err := cleanTmp("path", rel)
	if err != nil {
		return Listing{}, err
	}
	tmp, err := d.tmp()
	if err != nil {
		return Listing{}, fmt.Errorf("cannot open the agent's tmp: %w", err)
	}
	defer tmp.Close()
	w := walk{
		tmp:  tmp,
		most: min(max(most, 1), MaxEntries),
		room: DefaultCap,
		out:  Listing{Path: printable(at), Recursive: recursive, Entries: []Entry{}, Warnings: []string{}},
	}
	defer w.close(0)
	if err := w.run(ctx, at, recursive); err != nil {
		return Listing{}, err
	}
	slices.SortFunc(w.out.Entries, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
	w.out.Count = len(w.out.Entries)
	return w.out, nil
}

// A walk goes through a tree level by level. It keeps what it has found, and
// some directories open.
type walk struct {
	tmp  *os.Root
	most int
	room int64 // how many bytes of a response are left
	out  Listing
	open []opened // the directories read last, the newest at the end
}

type opened struct {
	path string
	file *os.File
}

func (w *walk) run(ctx context.Context, start string, recursive bool) error {
	for todo := []string{start}; len(todo) > 0 && !w.out.Truncated; todo = todo[1:] {
		dirs, err := w.dir(ctx, todo[0])
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil && recursive:
			todo = append(todo, dirs...)
		case err != nil && todo[0] == start:
			return refuseDir(start, err)
		case err != nil && !absentDir(err):
			w.warn(todo[0], err)
		}
	}
	return nil
}

// dir adds the entries of one directory and returns its subdirectories.
func (w *walk) dir(ctx context.Context, at string) (dirs []string, err error) {
	f, err := w.openDir(at)
	if err != nil {
		return nil, err
	}
	left := w.most - len(w.out.Entries)
	names, more, err := smallest(ctx, f, left)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e, err := entry(f, name)
		if err != nil {
			continue // removed since it was read
		}
		full := path.Join(at, name)
		e.Path = printable(full)
		if w.room -= wireCost([]byte(e.Path)) + wireCost([]byte(e.Target)) + entryCost; w.room < 0 {
			more = true
			break
		}
		w.out.Entries = append(w.out.Entries, e)
		if e.Type == "directory" {
			dirs = append(dirs, full)
		}
	}
	w.out.Truncated = more
	return dirs, nil
}

// openDir opens a directory, from its parent if that is still open: going down
// from tmp every time would make deep trees take the square of their depth.
func (w *walk) openDir(at string) (f *os.File, err error) {
	const keep = 32 // as many branches can be deep; with more of them none can, within MaxEntries
	parent := slices.IndexFunc(w.open, func(o opened) bool { return at != o.path && o.path == path.Dir(at) })
	if parent >= 0 {
		f, err = openDirAt(w.open[parent].file, path.Base(at))
	} else {
		f, err = openTmpDir(w.tmp, at)
	}
	if err != nil {
		return nil, err
	}
	w.open = append(w.open, opened{at, f})
	w.close(keep)
	return f, nil
}

// close closes all but the newest directories.
func (w *walk) close(keep int) {
	for len(w.open) > keep {
		w.open[0].file.Close()
		w.open = slices.Delete(w.open, 0, 1)
	}
}

// entryCost is about what an entry takes of a response beside its names.
const entryCost = 300

func (w *walk) warn(dir string, err error) {
	const most = 20
	if len(w.out.Warnings) < most {
		var at syscall.Errno
		_ = errors.As(err, &at)
		w.out.Warnings = append(w.out.Warnings, fmt.Sprintf("cannot list %s: %s", printable(dir), at.Error()))
	}
}

// absentDir tells that a directory was removed, or replaced by something else,
// after its parent was read.
func absentDir(err error) bool {
	return absent(err) == nil || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

func refuseDir(path string, err error) error {
	if errors.Is(err, syscall.ENOTDIR) {
		return refuse("path", "%q is not a directory; read_tmp reads files", path)
	}
	return refusePath("path", path, err)
}

// smallest reads the names in a directory and returns the first n in byte
// order. It holds at most 2n of them, and a batch, at a time.
func smallest(ctx context.Context, dir *os.File, n int) (names []string, more bool, err error) {
	trim := func() {
		slices.Sort(names)
		if len(names) > n {
			clear(names[n:])
			names, more = names[:n], true
		}
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, false, err
		}
		next, err := dir.Readdirnames(batch)
		if n == 0 && len(next) > 0 {
			return nil, true, nil
		}
		names = append(names, next...)
		if err == io.EOF {
			trim()
			return names, more, nil
		}
		if err != nil {
			return nil, false, err
		}
		if len(names) > 2*n {
			trim()
		}
	}
}

// entry describes a name in an open directory. It goes by the descriptor, so
// it tells of that directory whatever became of the path.
func entry(dir *os.File, name string) (Entry, error) {
	fd := int(dir.Fd())
	var st unix.Stat_t
	if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return Entry{}, err
	}
	e := Entry{
		Type:  kindOf(st.Mode),
		Size:  st.Size,
		Mtime: float64(st.Mtim.Sec) + float64(st.Mtim.Nsec)/1e9,
	}
	if e.Type == "symlink" {
		var buf [4096]byte
		n, err := unix.Readlinkat(fd, name, buf[:])
		if err != nil {
			return Entry{}, err
		}
		e.Target = printable(string(buf[:n]))
	}
	return e, nil
}

// printable shows each byte that is no UTF-8 as \xNN.
func printable(name string) string {
	if utf8.ValidString(name) {
		return name
	}
	var b strings.Builder
	for len(name) > 0 {
		r, n := utf8.DecodeRuneInString(name)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, name[0])
		} else {
			b.WriteString(name[:n])
		}
		name = name[n:]
	}
	return b.String()
}
