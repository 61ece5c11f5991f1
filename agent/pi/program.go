package pi

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// program is what the first bytes of an executable file say about it.
type program struct {
	script bool   // made for Node.js; otherwise it runs by itself
	node   string // a script: the interpreter, when named by an absolute path
	shim   string // the script that this shell wrapper runs
}

// inspect tells pi from the things that stand in for it. A version manager's
// shim is refused: it picks the version by the working directory and the
// environment, neither of which a cage has, and it needs the manager to run.
func inspect(file string) (program, error) {
	text, err := head(file)
	if err != nil {
		return program{}, err
	}
	if bytes.HasPrefix(text, []byte("\x7fELF")) {
		if manager := managerNamed(filepath.Base(file)); manager != "" {
			return program{}, shimError(file, manager)
		}
		return program{}, nil
	}
	line, _, _ := strings.Cut(string(text), "\n")
	interpreter, ok := strings.CutPrefix(line, "#!")
	if !ok {
		return program{}, fmt.Errorf("%s is neither a program nor a script; %s", file, remedy)
	}
	command := command(strings.Fields(interpreter))
	switch filepath.Base(command) {
	case "node", "nodejs":
		if !filepath.IsAbs(command) {
			command = ""
		}
		return program{script: true, node: command}, nil
	case "sh", "bash", "dash", "zsh":
		return wrapper(file, string(text))
	}
	return program{}, fmt.Errorf("%s is a script for %q, not for Node.js; %s", file, command, remedy)
}

// head reads as much of a file as any shim has. Files that are longer are not
// shims, and their first line is all that is wanted.
func head(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 16<<10))
}

// command takes `env` and its options and assignments off an interpreter line.
func command(words []string) string {
	if len(words) > 0 && filepath.Base(words[0]) == "env" {
		words = words[1:]
		for len(words) > 0 && (strings.HasPrefix(words[0], "-") || strings.Contains(words[0], "=")) {
			words = words[1:]
		}
	}
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

// wrapper looks into a shell script. pnpm and npm's cmd-shim write ones that
// run one script at a fixed place, and that is as good as a symlink.
func wrapper(file, text string) (program, error) {
	if target := wrapped(file, text); target != "" {
		return program{shim: target}, nil
	}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n\"'/;", r) }) {
		if manager := managerNamed(word); manager != "" {
			return program{}, shimError(file, manager)
		}
	}
	return program{}, fmt.Errorf("%s is a shell script that stands in for pi; name the file that it runs with --pi or PI_MCP_PI", file)
}

// wrapped returns the script that a wrapper runs, or "". Newer wrappers say it
// in a comment, older ones in the command only.
func wrapped(file, text string) string {
	if _, after, ok := strings.Cut(text, "\n# cmd-shim-target="); ok {
		if target, _, _ := strings.Cut(after, "\n"); filepath.IsAbs(target) {
			return target
		}
	}
	for {
		_, after, ok := strings.Cut(text, `"$basedir/`)
		if !ok {
			return ""
		}
		target, rest, _ := strings.Cut(after, `"`)
		if ext := filepath.Ext(target); ext == ".js" || ext == ".mjs" {
			return filepath.Dir(file) + "/" + target
		}
		text = rest
	}
}

// managerNamed knows the programs that link or write commands in their own name.
func managerNamed(program string) string {
	switch program {
	case "asdf", "mise", "nodenv", "volta", "proto", "snap":
		return program
	case "rtx":
		return "mise"
	case "volta-shim":
		return "volta"
	case "proto-shim":
		return "proto"
	}
	return ""
}

func shimError(file, manager string) error {
	if manager == "snap" {
		return fmt.Errorf("%s is run by snap, which does not work in a cage; %s", file, remedy)
	}
	which := manager + " which"
	if manager == "proto" {
		which = "proto bin"
	}
	return fmt.Errorf("%s is a shim of %s, not the program; name what `%s` prints (for pi with --pi or PI_MCP_PI)",
		file, manager, which+" NAME")
}
