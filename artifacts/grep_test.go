package artifacts_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/artifacts"
)

// run runs the real grep as the cage does and returns its output and exit code.
func run(t testing.TB, dir string, argv []string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "grep", argv...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func TestGrepArgs(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "stdout.log"), "one\ntwo -f three\n-x\n")
	for _, c := range []struct {
		args string // separated by spaces
		out  string
	}{
		{"-n one", "1:one\n"},
		{"one", "one\n"},
		{"one -n", "1:one\n"}, // options may follow
		{"-n -e one", "1:one\n"},
		{"-e one -e two -c", "2\n"},
		{"-neone", "1:one\n"},
		{"-c -ie ONE", "1\n"},
		{"-ieONE", "one\n"},
		{"--regexp=one", "one\n"},
		{"--regexp one", "one\n"},
		{"--reg one", "one\n"},
		{"--line-n one", "1:one\n"},
		{"-A1 one", "one\ntwo -f three\n"},
		{"-A 1 one", "one\ntwo -f three\n"},
		{"-1 one", "one\ntwo -f three\n"},
		{"-n1 one", "1:one\n2-two -f three\n"},
		{"--after-context 1 one", "one\ntwo -f three\n"},
		{"-m1 -v zzz", "one\n"},
		{"-e -f", "two -f three\n"}, // an argument of -e, not an option
		{"-e -x", "-x\n"},
		{"-- -x", "-x\n"},
		{"-c -e -- --", "0\n"},
		{"-hr one", "one\n"},
		{"-hR one", "one\n"},
		{"-hRi ONE", "one\n"},
		{"--dereference -h one", "one\n"},
		{"-d recurse -h one", "one\n"},
		{"-D skip one", "one\n"},
		{"--color=never one", "one\n"},
		{"--colo one -c", "1\n"},
		{"--binary-files=text -Eo (o)ne", "one\n"},
		{"--include=* --exclude *.x -h one", "one\n"},
		{"-Po on(?=e)", "on\n"},
		{"absent", ""},
	} {
		args := strings.Fields(c.args)
		argv, err := artifacts.GrepArgs(args, "stdout.log")
		if err != nil {
			t.Errorf("%s: %v", c.args, err)
			continue
		}
		if argv[len(argv)-1] != "stdout.log" || len(argv) != len(args)+1 {
			t.Errorf("%s became %q", c.args, argv)
		}
		if !strings.Contains(c.args, "R") && !strings.Contains(c.args, "--der") && !slices.Equal(argv[:len(args)], args) {
			t.Errorf("%s became %q", c.args, argv)
		}
		if out, exit := run(t, dir, argv); strings.ReplaceAll(out, "\x1b", "") != c.out || exit > 1 {
			t.Errorf("%s: exit %d, %q, want %q", c.args, exit, out, c.out)
		}
	}
	got, err := artifacts.GrepArgs([]string{"-n", "response"}, "stdout.log")
	check(t, err)
	if diff := cmp.Diff([]string{"-n", "response", "stdout.log"}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := artifacts.GrepArgs([]string{"two words; $(id) | `x`", ""}[:1], "stdout.log"); err != nil {
		t.Errorf("a pattern for a shell: %v", err)
	}
}

func TestF35GrepArgumentsThatReachFurther(t *testing.T) {
	for _, c := range []struct{ args, words string }{
		{"-f FILE", "-e"}, {"-f FILE x", "-e"}, {"-fFILE", "-e"}, {"-nfFILE x", "-e"}, {"-nf FILE", "-e"},
		{"x -f FILE", "-e"}, {"--file=FILE", "-e"}, {"--file FILE x", "-e"}, {"x --file", "-e"}, {"-f", "-e"},
		{"--exclude-from=FILE x", "--exclude"}, {"--exclude-f=FILE x", "--exclude"}, {"--exclude-from FILE x", "--exclude"},
		{"--include-from=FILE x", "known"}, {"--fil=FILE x", "more than one"}, {"--bogus x", "known"},
		{"x FILE", "second file"}, {"-n x FILE", "second file"}, {"-e x FILE", "second file"}, {"-r x /", "second file"},
		{"x -- FILE", "second file"}, {"-- x FILE", "second file"}, {"x -", "second file"}, {"-e x -- FILE", "second file"},
		{"", "no pattern"}, {"-n", "no pattern"}, {"--", "no pattern"}, {"-r", "no pattern"}, {"-A 3", "no pattern"},
		{"--label x", "no pattern"}, {"-e", "needs an argument"}, {"x -A", "needs an argument"},
		{"x -nA", "needs an argument"}, {"x --context", "needs an argument"}, {"-e x -m", "needs an argument"},
		{"-D read x", "FIFO"}, {"-Dread x", "FIFO"}, {"--devices=read x", "FIFO"}, {"--dev read x", "FIFO"},
		{"--help", "known"}, {"-V", "known"}, {"-j x", "known"}, {"-X perl x", "known"}, {"--line-number=3 x", "no argument"},
		{"--re x", "more than one"}, {"--no x", "more than one"}, {"-é x", "known"},
	} {
		_, err := artifacts.GrepArgs(strings.Fields(c.args), "stdout.log")
		if err == nil {
			t.Errorf("%q was taken", c.args)
			continue
		}
		refused(t, err, "args", c.words)
	}
	for _, args := range [][]string{
		{"a\x00b"}, slices.Repeat([]string{"-n"}, 257), {strings.Repeat("x", 64<<10+1)},
	} {
		_, err := artifacts.GrepArgs(args, "stdout.log")
		refused(t, err, "args")
	}
	for _, args := range [][]string{ // the controls, at the limits
		append(slices.Repeat([]string{"-n"}, 255), "x"), {strings.Repeat("x", 64<<10)},
	} {
		_, err := artifacts.GrepArgs(args, "stdout.log")
		check(t, err)
	}
}

func TestGrepTmp(t *testing.T) {
	d, p := newAgent(t)
	write(t, filepath.Join(p.Tmp, "notes.txt"), "a needle\n")
	write(t, filepath.Join(p.Tmp, "sub/more.txt"), "needle too\n")
	write(t, filepath.Join(p.Tmp, "-f"), "needle in -f\n")
	for _, c := range []struct {
		args, cwd, path string // args are separated by spaces
		argv            string
		out             string
	}{
		{"-rn needle", "", "", "-rn needle", "-f:1:needle in -f\nnotes.txt:1:a needle\nsub/more.txt:1:needle too\n"},
		{"-n needle", "", "", "-r -n needle", "-f:1:needle in -f\nnotes.txt:1:a needle\nsub/more.txt:1:needle too\n"},
		{"-n needle notes.txt", "", "", "-n needle notes.txt", "1:a needle\n"},
		{"needle notes.txt sub/more.txt", "", "", "needle notes.txt sub/more.txt", "notes.txt:a needle\nsub/more.txt:needle too\n"},
		{"-n needle", "", "notes.txt", "-n needle notes.txt", "1:a needle\n"},
		{"-n needle", "", "./sub//more.txt", "-n needle sub/more.txt", "1:needle too\n"},
		{"needle", "", "sub", "-r needle sub", "sub/more.txt:needle too\n"},
		{"needle sub", "", "", "-r needle sub", "sub/more.txt:needle too\n"},
		{"-R needle sub", "", "", "-r needle sub", "sub/more.txt:needle too\n"},
		{"needle", "sub", "", "-r needle", "more.txt:needle too\n"},
		{"needle", "sub", "more.txt", "needle more.txt", "needle too\n"},
		{"needle", "", "-f", "needle ./-f", "needle in -f\n"},
		{"-e needle -- -f", "", "", "-e needle -- -f", "needle in -f\n"},
		{"needle .", "sub", "", "-r needle .", "./more.txt:needle too\n"},
		{"-l needle", "", ".", "-r -l needle .", "./-f\n./notes.txt\n./sub/more.txt\n"},
		{"-c absent", "sub", "", "-r -c absent", "more.txt:0\n"},
	} {
		got, err := d.GrepTmp(strings.Fields(c.args), c.cwd, c.path)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if argv := strings.Join(got.Argv, " "); argv != c.argv || got.Cwd != filepath.Clean(c.cwd) {
			t.Errorf("%+v became %s in %s", c, argv, got.Cwd)
		}
		out, _ := run(t, filepath.Join(p.Tmp, got.Cwd), got.Argv)
		lines := strings.SplitAfter(out, "\n")
		slices.Sort(lines)
		if out := strings.Join(lines, ""); out != c.out {
			t.Errorf("%+v: %q", c, out)
		}
	}
}

func TestF35GrepTmpStaysInTmp(t *testing.T) {
	d, p := newAgent(t)
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, "needle outside\n")
	write(t, filepath.Join(p.Pi, "auth.json"), "needle in pi\n")
	write(t, filepath.Join(p.Tmp, "sub/file"), "needle inside\n")
	check(t, os.Symlink(filepath.Dir(secret), filepath.Join(p.Tmp, "out")))
	check(t, os.Symlink("../pi", filepath.Join(p.Tmp, "up")))

	for _, c := range []struct{ args, cwd, path, arg string }{
		{"needle " + secret, "", "", "args"}, {"-r needle ..", "", "", "args"}, {"-r needle ../..", "sub", "", "args"},
		{"needle ../sub/file", "sub", "", "args"}, {"-r needle /", "", "", "args"}, {"needle out/secret", "", "", "args"},
		{"-r needle out", "", "", "args"}, {"needle up/auth.json", "", "", "args"}, {"needle sub/file -", "", "", "args"},
		{"needle absent", "", "", "args"}, {"needle file", "", "sub/file", "args"}, {"needle -f sub/file", "", "", "args"},
		{"-- needle -f", "", "", "args"}, {"", "", "sub/file", "args"}, {"-n", "", "", "args"},
		{"needle", "..", "", "cwd"}, {"needle", "/", "", "cwd"}, {"needle", "out", "", "cwd"}, {"needle", "up", "", "cwd"},
		{"needle", "sub/file", "", "cwd"}, {"needle", "absent", "", "cwd"},
		{"needle", "", "../pi/auth.json", "path"}, {"needle", "", secret, "path"}, {"needle", "", "out/secret", "path"},
		{"needle", "sub", "../up/auth.json", "path"}, {"needle", "", "-", "path"}, {"needle", "", "absent", "path"},
	} {
		_, err := d.GrepTmp(strings.Fields(c.args), c.cwd, c.path)
		if err == nil {
			t.Errorf("%+v was taken", c)
			continue
		}
		refused(t, err, c.arg)
	}
	_, err := d.GrepTmp([]string{"needle", ""}, "", "")
	refused(t, err, "args")
	for _, args := range []string{"-R needle", "-rs needle", "-Rs needle .", "--dereference-recursive needle"} { // the controls
		got, err := d.GrepTmp(strings.Fields(args), "", "")
		check(t, err)
		out, _ := run(t, p.Tmp, got.Argv)
		if !strings.Contains(out, "inside") || strings.Contains(out, "outside") || strings.Contains(out, "in pi") {
			t.Errorf("%s: %q", args, out)
		}
	}
	if out, _ := run(t, p.Tmp, []string{"-R", "needle"}); !strings.Contains(out, "outside") {
		t.Errorf("-R itself does not follow links, so this test shows nothing: %q", out)
	}
}
