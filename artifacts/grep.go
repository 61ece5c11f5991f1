package artifacts

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// Limits of the arguments of one grep.
const (
	maxGrepArgs  = 256
	maxGrepBytes = 64 << 10
)

// GrepArgs checks a caller's arguments for GNU grep and returns its argv with
// file, the log to search, as the final operand. Refusals are ArgErrors of
// "args".
//
// grep is meant to run without a shell, without POSIXLY_CORRECT, with its
// stdin empty, in a throw-away cage that shows it this one file (for GrepTmp:
// the agent's tmp, read only) beside the system's own programs. So an argument
// that slips through reaches no other file of the host; these rules are there
// so that nothing does, and so that a caller hears of a mistake in place of
// getting an empty answer:
//
//   - Arguments are read as grep reads them: clustered short options,
//     abbreviated long ones, -NUM, arguments of options, --, and options after
//     operands. An option that is not known here is refused.
//   - Options that name a file, --file and --exclude-from, are refused. So is
//     reading devices, which would wait on a FIFO for ever.
//   - There must be a pattern, and no operand beside it: the file is added. An
//     option that lacks its argument is refused, since it would take the file.
//   - -R is passed on as -r: links are not followed out of what is searched.
//   - At most 256 arguments and 64 KiB in all, without NUL bytes.
func GrepArgs(args []string, file string) ([]string, error) {
	g, err := parseGrep(args)
	if err != nil {
		return nil, err
	}
	if len(g.files) > 0 {
		return nil, refuse("args", "%q is a second file to search; grep searches one log, which is added as the last "+
			"operand: leave it out, or pass further patterns with -e", g.files[0])
	}
	return append(g.argv, file), nil
}

// A Grep is a checked grep_tmp call.
type Grep struct {
	Cwd  string   // the directory to start in, relative to the agent's tmp; "." is tmp
	Path string   // the file or directory to search, relative to Cwd; "" when args name them or all of Cwd is searched
	Argv []string // grep's arguments, without its own name
}

// GrepTmp checks a caller's arguments for a grep in the agent's tmp by the
// rules of GrepArgs. What is searched are files and directories below cwd: the
// one that path names, which becomes the final operand; or those that args
// name after the pattern; or, without any, all of cwd. Directories are searched
// recursively without having to ask. Every operand must be there, be a regular
// file or a directory, and be named by a relative path without "..". An agent
// can exchange what was checked for a link before grep looks; the cage is what
// confines it then.
func (d *Dir) GrepTmp(args []string, cwd, target string) (Grep, error) {
	g, err := parseGrep(args)
	if err != nil {
		return Grep{}, err
	}
	tmp, err := d.tmp()
	if err != nil {
		return Grep{}, fmt.Errorf("cannot open the agent's tmp: %w", err)
	}
	defer tmp.Close()
	call := Grep{Argv: g.argv}
	if call.Cwd, err = startDir(tmp, cwd); err != nil {
		return Grep{}, err
	}
	recurse, err := call.search(tmp, g.files, target)
	if err != nil {
		return Grep{}, err
	}
	if recurse && !g.recursive {
		call.Argv = append([]string{"-r"}, call.Argv...)
	}
	return call, nil
}

// startDir checks the directory to search in and returns its clean path.
func startDir(tmp *os.Root, cwd string) (string, error) {
	at, err := cleanTmp("cwd", cwd)
	if err != nil {
		return "", err
	}
	dir, err := searchable(tmp, "cwd", at)
	if err == nil && !dir {
		err = refuse("cwd", "%q is not a directory; pass it as path", cwd)
	}
	return at, err
}

// search checks what is to be searched, files of the arguments or target, and
// adds target to the argv. It tells whether that needs a recursive grep.
func (call *Grep) search(tmp *os.Root, files []string, target string) (recurse bool, err error) {
	for _, name := range files {
		if target != "" {
			return false, refuse("args", "%q is a file to search, and path names another; leave one of them out", name)
		}
		dir, err := operand(tmp, "args", call.Cwd, name)
		if err != nil {
			return false, err
		}
		recurse = recurse || dir
	}
	if target == "" {
		return recurse || len(files) == 0, nil
	}
	if recurse, err = operand(tmp, "path", call.Cwd, target); err != nil {
		return false, err
	}
	call.Path = path.Clean(target)
	last := call.Path
	if strings.HasPrefix(last, "-") {
		last = "./" + last // not an option
	}
	call.Argv = append(call.Argv, last)
	return recurse, nil
}

// operand checks the name of something to search, which is relative to cwd,
// and tells whether it is a directory.
func operand(tmp *os.Root, arg, cwd, name string) (dir bool, err error) {
	switch name {
	case "":
		return false, refuse(arg, `the name of a file to search is empty; pass "." for the whole directory`)
	case "-":
		return false, refuse(arg, `"-" is the standard input, which is empty; name a file, or pass "./-"`)
	}
	clean, err := cleanTmp(arg, name)
	if err != nil {
		return false, err
	}
	return searchable(tmp, arg, path.Join(cwd, clean))
}

// searchable checks that grep can read what is at a clean path below tmp.
func searchable(tmp *os.Root, arg, at string) (dir bool, err error) {
	info, err := tmp.Stat(at)
	switch {
	case err != nil:
		return false, refusePath(arg, at, err)
	case info.Mode().Type() == 0, info.Mode().Type() == fs.ModeDir:
		return info.IsDir(), nil
	}
	return false, refuse(arg, "%q is a %s; only files and directories can be searched", at, kindOf(unixKind(info.Mode())))
}
