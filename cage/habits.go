package cage

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// secrets are where programs keep credentials and records of their users, below
// whatever directory. Nobody who grants a directory means these.
var secrets = [...]string{
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker/config.json", ".netrc", ".git-credentials",
	".config/gh", ".config/gcloud", ".config/google-chrome", ".config/chromium", ".mozilla",
	".local/share/keyrings", ".password-store", ".npmrc", ".pypirc", ".codex", ".claude",
}

// scripts are what the user's own programs run or obey later, outside any cage. An
// agent that could write one would be out at the user's next command. A .git that
// is a file leads git to its directory.
var scripts = [...]string{
	".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir", ".git", ".gitconfig", ".config/git",
	".pi", ".mcp.json", ".vscode", ".idea", ".envrc", ".husky",
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".bash_aliases",
	".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".config/fish",
}

// gitScripts are the scripts of a git directory whatever its name: a bare
// repository's, a submodule's, a worktree's.
var gitScripts = [...]string{"hooks", "config", "config.worktree", "commondir"}

// habits are the automatic rules, by the last component of their paths.
type habits map[string][]habit

type habit struct {
	suffix string // with a leading slash
	mode   mode
}

func newHabits() habits {
	h := make(habits)
	for m, paths := range [...][]string{read: scripts[:], denied: secrets[:]} {
		for _, path := range paths {
			name := filepath.Base(path)
			h[name] = append(h[name], habit{"/" + path, mode(m)})
		}
	}
	return h
}

// of returns the automatic rule for a path that is a directory or not.
func (h habits) of(path string, dir bool) (mode, bool) {
	name := filepath.Base(path)
	for _, known := range h[name] {
		if strings.HasSuffix(path, known.suffix) && !(dir && name == ".git") {
			return known.mode, true
		}
	}
	history := strings.HasPrefix(name, ".") && strings.HasSuffix(name, "_history")
	cargo := strings.HasPrefix(name, "credentials") && filepath.Base(filepath.Dir(path)) == ".cargo"
	return denied, !dir && (history || cargo)
}

// touch reports whether an automatic rule could be about path or what holds it.
func (h habits) touch(path string) bool {
	for ; path != "/"; path = filepath.Dir(path) {
		if _, ok := h.of(path, false); ok || strings.HasSuffix(path, ".git") {
			return true
		}
	}
	return false
}

// gitDir reports whether a directory with these entries is one that git would
// take its hooks and its configuration from.
func gitDir(path string, entries []fs.DirEntry) bool {
	if filepath.Base(path) == ".git" {
		return true
	}
	has := func(name string) bool {
		return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == name })
	}
	return has("HEAD") && (has("objects") && has("refs") || has("commondir"))
}
