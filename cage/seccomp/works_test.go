package seccomp_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pi-mcp/cage/seccomp"
)

// TestWorks runs under the strict filter what agents do all day. Each script ends by
// saying ok, here and, so that a failure is the filter's, without it.
func TestWorks(t *testing.T) {
	for _, c := range []struct{ name, needs, script string }{
		{"node", tools(t, "node"), `"$0" "$DATA/works.mjs"`},
		{"pi", tools(t, "pi"), `"$NODE" "$0" --version >&2 && echo ok`},
		{"git", "git", `
			git init -q a && cd a && echo x >f && git add f
			git -c user.name=a -c user.email=a@b commit -q -m m
			git clone -q . ../b && git -C ../b log --oneline | cat >&2 && git gc -q && git status -s && echo ok`},
		{"bash", "bash", `
			"$0" -ec 'trap "echo ok" EXIT; diff <(seq 1000) <(seq 1000); sleep 0 & wait
			mkdir -p d/e && install -m 0755 /bin/true d/e/x && mkdir -m 1777 d/t && mkfifo d/p
			tar cf - d | tar xf - -C d/e && cp -a d c && d/e/x && find c | sort | wc -l >&2'`},
		{"gcc", "gcc", `
			printf '%s\n' '#include <pthread.h>' '#include <stdio.h>' \
				'static void *say(void *p) { puts("ok"); return p; }' \
				'int main(void) { pthread_t t; return pthread_create(&t, 0, say, 0) || pthread_join(t, 0); }' >m.c
			gcc -pthread -o m m.c && ./m`},
		{"go", "go", `
			printf '%s\n' 'package main' 'import "fmt"' 'func main() { fmt.Println("ok") }' >m.go
			go build -o m m.go && ./m`},
		{"python", "python3", `"$0" "$DATA/works.py"`},
	} {
		path, err := exec.LookPath(c.needs)
		if err != nil {
			t.Logf("%s is not on this machine", c.name)
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			works(t, nil, path, c.script)
			works(t, file(t, seccomp.Options{}), path, c.script)
		})
	}
}

// works runs the script in an empty directory, with the tool as $0.
func works(t *testing.T, filter *os.File, tool, script string) {
	t.Helper()
	data, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	// Go's cache of what it has built already; nothing else of the host changes.
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	writable := []string{t.TempDir(), strings.TrimSpace(string(cache))}
	cmd := caged(t, filter, writable, "/bin/sh", "-ec", script, tool)
	cmd.Env = append(cmd.Env, "DATA="+data, "NODE="+tools(t, "node"), "GOCACHE="+writable[1])
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || lines[len(lines)-1] != "ok" {
		t.Fatalf("filtered %v: %v\n%s", filter != nil, err, out)
	}
}

// tools returns a program of the repository's own.
func tools(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs("../../.tools/node_modules/.bin/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: make setup installs it", err)
	}
	return path
}
