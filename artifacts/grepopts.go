package artifacts

import (
	"slices"
	"strings"
)

// Short options of GNU grep 3.x, as its source gives them to getopt; those
// with an argument apart. What is not documented is left out, and so are
// --help and --version, which search nothing.
const (
	shortPlain = "0123456789EFGHILPTUZabchilnoqRrsvwxyz"
	shortArg   = "ABCDdefm"
)

// longOptions are the long ones: "name=" needs an argument, which may be the
// next one; "name?" may have one after "=".
const longOptions = `after-context= basic-regexp before-context= binary binary-files= byte-offset color? colour?
context= count dereference-recursive devices= directories= exclude= exclude-dir= exclude-from= extended-regexp file=
files-with-matches files-without-match fixed-regexp fixed-strings group-separator= ignore-case include= initial-tab
invert-match label= line-buffered line-number line-regexp max-count= no-filename no-group-separator no-ignore-case
no-messages null null-data only-matching perl-regexp quiet recursive regexp= silent text with-filename word-regexp`

// longName gives the long name of the short options that are acted on here.
func longName(short byte) string {
	switch short {
	case 'e':
		return "regexp"
	case 'f':
		return "file"
	case 'D':
		return "devices"
	case 'd':
		return "directories"
	case 'r':
		return "recursive"
	case 'R':
		return "dereference-recursive"
	}
	return string(short)
}

// A grepCall is what the arguments of a grep mean.
type grepCall struct {
	argv      []string // the arguments as they are passed on
	pattern   bool
	recursive bool
	files     []string // operands after the pattern
	waiting   string   // the option that takes the next argument
	waitArg   string   // it, as it was written
	operands  []string
}

// parseGrep reads arguments as GNU grep does.
func parseGrep(args []string) (*grepCall, error) {
	if err := boundArgs(args); err != nil {
		return nil, err
	}
	g := &grepCall{argv: make([]string, 0, len(args)+2)}
	for i, arg := range args {
		if arg == "--" && g.waiting == "" {
			g.argv = append(g.argv, args[i:]...)
			g.operands = append(g.operands, args[i+1:]...)
			break
		}
		passed, err := g.argument(arg)
		if err != nil {
			return nil, err
		}
		g.argv = append(g.argv, passed)
	}
	if g.waiting != "" {
		return nil, refuse("args", "%s needs an argument after it", g.waitArg)
	}
	g.files = g.operands
	if !g.pattern {
		if len(g.operands) == 0 {
			return nil, refuse("args", `there is no pattern to search for; pass one, as in ["-n", "error"]`)
		}
		g.files = g.operands[1:]
	}
	return g, nil
}

func boundArgs(args []string) error {
	total := 0
	for _, arg := range args {
		if strings.Contains(arg, "\x00") {
			return refuse("args", "an argument cannot hold a NUL byte")
		}
		total += len(arg)
	}
	if len(args) > maxGrepArgs || total > maxGrepBytes {
		return refuse("args", "%d arguments of %d bytes in all; at most %d arguments and %d bytes are taken",
			len(args), total, maxGrepArgs, maxGrepBytes)
	}
	return nil
}

// argument reads one argument and returns it as it is to be passed on.
func (g *grepCall) argument(arg string) (string, error) {
	switch {
	case g.waiting != "":
		name := g.waiting
		g.waiting = ""
		return arg, g.option(name, g.waitArg, arg)
	case strings.HasPrefix(arg, "--"):
		return g.long(arg)
	case strings.HasPrefix(arg, "-") && arg != "-":
		return g.short(arg)
	}
	g.operands = append(g.operands, arg)
	return arg, nil
}

// short reads a cluster of short options; one with an argument ends it.
func (g *grepCall) short(arg string) (string, error) {
	for i := 1; i < len(arg); i++ {
		name, written := longName(arg[i]), "-"+arg[i:i+1]
		switch {
		case strings.IndexByte(shortArg, arg[i]) >= 0 && i+1 < len(arg):
			return arg, g.option(name, written, arg[i+1:])
		case strings.IndexByte(shortArg, arg[i]) >= 0:
			g.waiting, g.waitArg = name, written
			return arg, g.known(name, written)
		case strings.IndexByte(shortPlain, arg[i]) < 0:
			return "", refuse("args", "%q in %q is not a known option; put -e before a pattern that begins with -", written, arg)
		case name == "dereference-recursive":
			arg = arg[:i] + "r" + arg[i+1:]
			g.recursive = true
		case name == "recursive":
			g.recursive = true
		}
	}
	return arg, nil
}

// long reads a long option, which may be abbreviated.
func (g *grepCall) long(arg string) (string, error) {
	given, value, has := strings.Cut(arg[2:], "=")
	name, kind, err := resolve(given)
	if err != nil {
		return "", err
	}
	switch {
	case has && kind == "":
		return "", refuse("args", "--%s takes no argument", name)
	case has:
		return arg, g.option(name, "--"+name, value)
	case kind == "=":
		g.waiting, g.waitArg = name, "--"+name
		return arg, g.known(name, "--"+name)
	case name == "dereference-recursive":
		g.recursive = true
		return "--recursive", nil
	case name == "recursive":
		g.recursive = true
	}
	return arg, nil
}

// resolve finds the long option that a name or an abbreviation means, and
// whether it has an argument: "", "=" or "?".
func resolve(given string) (name, kind string, err error) {
	var found []string
	for _, option := range strings.Fields(longOptions) {
		name := strings.TrimRight(option, "=?")
		if name == given {
			return name, option[len(name):], nil
		}
		if strings.HasPrefix(name, given) {
			found = append(found, option)
		}
	}
	// getopt takes an abbreviation of several names of one option.
	if len(found) == 0 {
		return "", "", refuse("args", "--%s is not a known option; put -e before a pattern that begins with -", given)
	}
	name = strings.TrimRight(found[0], "=?")
	if len(found) > 1 && !slices.Equal(found, []string{"color?", "colour?"}) {
		return "", "", refuse("args", "--%s can mean more than one option (%s); write it out", given, strings.Join(found, " "))
	}
	return name, found[0][len(name):], nil
}

// known refuses options that must not be passed, whatever their argument.
func (g *grepCall) known(name, written string) error {
	switch name {
	case "file":
		return refuse("args", "%s reads patterns from a file, which is not allowed; pass each pattern with -e", written)
	case "exclude-from":
		return refuse("args", "%s reads a file, which is not allowed; pass each pattern with --exclude", written)
	}
	return nil
}

// option looks at an option and its argument.
func (g *grepCall) option(name, written, value string) error {
	if err := g.known(name, written); err != nil {
		return err
	}
	switch name {
	case "regexp":
		g.pattern = true
	case "devices":
		if value != "skip" {
			return refuse("args", "%s %s would wait for whoever writes to a device or FIFO; only skip is allowed", written, value)
		}
	case "directories":
		g.recursive = len(value) > 2 && strings.HasPrefix("recurse", value) // grep takes abbreviations
	}
	return nil
}
