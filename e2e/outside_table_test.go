package e2e

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// An outside is an attempt that no probe in a cage can make alone, and the tests that
// make it. Each of them has a control in it, which gets through.
type outside struct {
	number       int
	tried, comes string
	tests        string // package.Test, separated by spaces
}

var outsides = []outside{
	{81, "write on pi's output through /proc/PID/fd/1", "cannot be opened", "cage.TestForgedStreams"},
	{82, "read pi's input through /proc/PID/fd/0", "cannot be opened", "cage.TestForgedStreams"},
	{83, "type into a terminal by a number that the kernel cuts to TIOCSTI", "EPERM", "seccomp.TestTrials"},
	{84, "send pid 1 of the cage every signal, plain and queued", "it lives", "cage.TestInitSignals"},
	{85, "kill -9 -1", "ends what the agent started; the end is reported", "cage.TestKillAll"},
	{86, "a fork bomb", "stops at the limit; nothing is left after a rip", "agent.TestF18ForkBomb cage.TestLimits"},
	{87, "200 orphans", "are collected", "cage.TestOrphans"},
	{88, "outlive a server that is killed, in a session of its own", "ends with it, in two ways of which each is enough",
		"cage.TestServerKilledOneWay cage.TestF11ServerKilled e2e.TestF11KilledServerLeavesNothing"},
	{89, "40 cages while threads of the server end", "all live", "cage.TestF12Threads"},
	{90, "120 starts while a granted directory is exchanged with a symlink", "each shows the directory or is refused", "cage.TestSwapRace"},
	{91, "a symlink to /oldroot on the way to a rule in a grant", "refused; nothing outside is made", "cage.TestOldroot cage.TestVerified"},
	{92, "rename the parent of a mask, then resurrect", "the mask is in place", "agent.TestMovedMask"},
	{93, "a path with ..", "refused", "cage.TestResolveRefuses cage.TestSpecCheck"},
	{94, "paths with newlines, spaces, backslashes, bytes that are no text", "mounted as they are", "cage.TestOddPaths"},
	{95, "a bind mount of a denied path at a granted place", "refused", "cage.TestAliases"},
	{96, "a child asks for more than its parent has", "refused", "cage.TestNarrow cage.TestNarrowResolved"},
	{97, "grants of sockets, pipes, devices, /proc, the home directory, the server's own files", "refused",
		"cage.TestResolveRefuses agent.TestAutomaticRefusals"},
	{98, "links in the agent's places to the host's, then resurrect", "nothing is written there",
		"agent.TestPlanted artifacts.TestWritePiReplacesALink artifacts.TestMountPointNamesWhatIsInTheWay"},
	{99, "read_tmp and list_tmp of links, pipes, huge files, deep trees, odd names", "only what is in /tmp, in bounded memory",
		"artifacts.TestF37PathsThatLeaveTmpAreRefused artifacts.TestWhatIsNoRegularFile artifacts.TestF37ADirectorySwappedWithALink " +
			"artifacts.TestF39HugeFilesTakeLittleMemory artifacts.TestF39ManyFiles artifacts.TestF39ADeepTree artifacts.TestStrangeNames"},
	{100, "grep with arguments that name other files, through links, without end", "refused, or only /tmp; ended",
		"artifacts.TestF35GrepArgumentsThatReachFurther artifacts.TestF35GrepTmpStaysInTmp cage.TestRunEnds"},
	{101, "the proxy: denied hosts, this machine, the metadata address, another Host, 1000 connections, slow requests",
		"403; each gets its turn or an answer; given up",
		"egress.TestRefusedByPolicy egress.TestSpecialAddresses egress.TestRefusedTargets egress.TestManyConns egress.TestSlowRequest"},
	{102, "the MCP listener with another agent's token; from the host", "refused; not to be reached", "e2e.TestEndpointTokens cage.TestListeners"},
	{103, "endless lines, output without end, bytes that are no text, U+2028", "bounded memory and logs; records stay whole",
		"pirpc.TestMemoryOfALongLine pirpc.TestLongAndStrange pirpc.TestLines pirpc.TestF01SplitAtEveryByte artifacts.TestF21LogStopsAtItsLimit"},
	{104, "fill /tmp", "stopped at the budget; others are undisturbed", "e2e.TestTmpBudget agent.TestBudgetRip artifacts.TestUsageClosed"},
	{105, "fill /dev/shm and /", "ends at 64 MiB; read-only", "cage.TestFull"},
	{106, "spoil the session file, then resurrect", "works or fails with a reason; its directory grants nothing", "e2e.TestSpoiltSession"},
	{107, "edit pi's settings, then resurrect", "made anew", "agent.TestPlanted artifacts.TestWritePiStartsAnew"},
	{108, "look for secrets in logs, results, the database and the doctor's words", "none", "e2e.TestF32Secrets e2e.TestDoctorTellsNoSecret"},
	{109, "listeners of a cage that has ended", "closed", "cage.TestListeners egress.TestClose"},
	{109, "the token of an agent that has ended", "refused", "e2e.TestEndpointTokens"},
	{110, "as root: unmount a mask, make a mount writable", "EPERM", "cage.TestCapabilities"},
}

// sources are the directories of the table's packages, from the root of the module.
var sources = map[string]string{
	"agent": "agent", "pirpc": "agent/pirpc", "artifacts": "artifacts", "cage": "cage", "egress": "cage/egress",
	"seccomp": "cage/seccomp", "e2e": "e2e",
}

// knownTests are the tests that there are, as package.Test.
func knownTests(t *testing.T) map[string]bool {
	t.Helper()
	known := map[string]bool{}
	for pkg, dir := range sources {
		for _, name := range testNames(t, filepath.Join("..", dir)) {
			known[pkg+"."+name] = true
		}
	}
	return known
}

// testNames reads the names of a directory's tests from its source.
func testNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	must(t, err)
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		must(t, err)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// TestOutsideTable: the table has every number, and every test that it names exists.
func TestOutsideTable(t *testing.T) {
	t.Parallel()
	known := knownTests(t)
	numbers := map[int]bool{}
	for _, row := range outsides {
		numbers[row.number] = true
	}
	for n := 81; n <= 110; n++ {
		if !numbers[n] {
			t.Errorf("there is no attempt %d", n)
		}
	}
	for _, row := range outsides {
		for _, test := range strings.Fields(row.tests) {
			if !known[test] {
				t.Errorf("attempt %d (%s): there is no %s", row.number, row.tried, test)
			}
		}
	}
	if known["e2e.TestNobody"] || !known["e2e.TestOutsideTable"] {
		t.Error("control: the tests that are known are not those that exist")
	}
}

// outsidePage is the second part of doc/probes.md.
func outsidePage(rows []outside) []byte {
	var b bytes.Buffer
	fmt.Fprint(&b, `
## From outside the probe

What a program in a cage cannot try by itself, or not alone, is tried by other tests. Each has a control, in which the same gets
through where nothing stops it. `+"`go test ./e2e -run Outside`"+` sees to it that each of them exists and, as root, runs all of them as an
ordinary user, too.

| # | what is tried | what comes of it | shown by |
|---|---|---|---|
`)
	for _, row := range outsides {
		tests := strings.Fields(row.tests)
		for i, test := range tests {
			pkg, name, _ := strings.Cut(test, ".")
			tests[i] = "`" + sources[pkg] + "` " + name
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", row.number, row.tried, row.comes, strings.Join(tests, ", "))
	}
	return b.Bytes()
}

// outsideTests are the tests of the table by package.
func outsideTests() map[string][]string {
	all := map[string]map[string]bool{}
	for _, row := range outsides {
		for _, test := range strings.Fields(row.tests) {
			pkg, name, _ := strings.Cut(test, ".")
			if all[pkg] == nil {
				all[pkg] = map[string]bool{}
			}
			all[pkg][name] = true
		}
	}
	tests := map[string][]string{}
	for pkg, names := range all {
		tests[pkg] = slices.Sorted(maps.Keys(names))
	}
	return tests
}
