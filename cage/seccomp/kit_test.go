package seccomp_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"pi-mcp/cage/seccomp"
)

// sourcesVar names a directory with the source of package unix, for a user who has no
// Go.
const sourcesVar = "SECCOMP_TEST_SOURCES"

func TestMain(m *testing.M) {
	if os.Getenv(probeVar) != "" {
		probe(os.Stdin, os.Stdout)
		return
	}
	os.Exit(m.Run())
}

// audit is how each architecture shows in seccomp_data.
var audit = map[string]uint32{"amd64": 0xc000003e, "arm64": 0xc00000b7}

// every calls f with each combination of options.
func every(t *testing.T, f func(t *testing.T, o seccomp.Options)) {
	for arch := range audit {
		for i := range 4 {
			o := seccomp.Options{Arch: arch, Unix: i&1 != 0, Debug: i&2 != 0}
			t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) { f(t, o) })
		}
	}
}

func filter(t testing.TB, o seccomp.Options) []seccomp.Instruction {
	t.Helper()
	program, err := seccomp.Filter(o)
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// judge returns what the program says, which it must.
func judge(t testing.TB, program []seccomp.Instruction, r request) verdict {
	t.Helper()
	v, err := run(program, r)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// numbers returns the system calls of an architecture, by name in lower case. They are
// read from the source of package unix, so that those of both can be had on either.
func numbers(t testing.TB, arch string) map[string]uint32 {
	t.Helper()
	dir := os.Getenv(sourcesVar)
	if dir == "" {
		out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "golang.org/x/sys/unix").Output()
		if err != nil {
			t.Fatal(err)
		}
		dir = strings.TrimSpace(string(out))
	}
	name := filepath.Join(dir, "zsysnum_linux_"+arch+".go")
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]uint32{}
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			number, err := strconv.ParseUint(v.Values[0].(*ast.BasicLit).Value, 0, 32)
			if err != nil {
				t.Fatal(err)
			}
			all[strings.ToLower(strings.TrimPrefix(v.Names[0].Name, "SYS_"))] = uint32(number)
		}
		return true
	})
	if len(all) < 300 {
		t.Fatalf("%s has %d system calls", name, len(all))
	}
	return all
}

// here are the numbers of this machine.
func here(t testing.TB) map[string]uint32 { return numbers(t, runtime.GOARCH) }
