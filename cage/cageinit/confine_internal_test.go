package cageinit

import (
	"strings"
	"testing"
)

// TestRestrained: what no bubblewrap can be made to leave out here is found in what the
// kernel would say.
func TestRestrained(t *testing.T) {
	const whole = "Name:\tpi-mcp\nCapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n" +
		"CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t1\n"
	if err := restrained(whole); err != nil {
		t.Errorf("whole: %v", err)
	}
	for _, tc := range []struct{ from, to, says string }{
		{"CapInh:\t0000000000000000", "CapInh:\t0000000000000001", "CapInh"},
		{"CapPrm:\t0000000000000000", "CapPrm:\t8000000000000000", "CapPrm"},
		{"CapEff:\t0000000000000000", "CapEff:\t0000000000200000", "CapEff"},
		{"CapBnd:\t0000000000000000", "CapBnd:\t000001ffffffffff", "CapBnd"},
		{"CapAmb:\t0000000000000000\n", "", "CapAmb"},
		{"NoNewPrivs:\t1", "NoNewPrivs:\t0", "no_new_privs"},
		{"Seccomp:\t2", "Seccomp:\t0", "--seccomp"},
		{"Seccomp:\t2\n", "", "--seccomp"},
	} {
		err := restrained(strings.Replace(whole, tc.from, tc.to, 1))
		if err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%q: %v", tc.to, err)
		}
	}
}
