package egress_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pi-mcp/cage/egress"
)

func TestParse(t *testing.T) {
	for _, test := range []struct {
		words []string
		want  string
	}{
		{[]string{"provider"}, "provider"},
		{[]string{" Internet "}, "internet"},
		{[]string{"host"}, "host"},
		{[]string{"example.com"}, "example.com"},
		{[]string{"EXAMPLE.com."}, "example.com"},
		{[]string{"example.com:8443"}, "example.com:8443"},
		{[]string{"example.com:443", "example.com:80"}, "example.com"},
		{[]string{"example.com:443,example.com:80 example.com:22"}, "example.com,example.com:22"},
		{[]string{"b.test", "a.test", "b.test"}, "a.test,b.test"},
		{[]string{"*.example.com", "api.example.com", "example.com:80"}, "*.example.com,example.com:80"},
		{[]string{"*.example.com:443", "api.example.com"}, "*.example.com:443,api.example.com:80"},
		{[]string{"*.a.test", "*.b.a.test"}, "*.a.test"},
		{[]string{"192.0.2.1"}, "192.0.2.1"},
		{[]string{"2001:DB8:0::1"}, "[2001:db8::1]"},
		{[]string{"[2001:db8::1]:22"}, "[2001:db8::1]:22"},
		{[]string{"xn--bcher-kva.example"}, "xn--bcher-kva.example"},
		{[]string{"localhost:11434", "_x.intranet"}, "_x.intranet,localhost:11434"},
	} {
		got := parse(t, test.words...)
		if got.String() != test.want || string(got) != test.want {
			t.Errorf("%q = %q, want %q", test.words, got, test.want)
		}
		if again := parse(t, got.String()); again != got {
			t.Errorf("%q parsed again = %q", got, again)
		}
		if again := parse(t, got.Strings()...); again != got {
			t.Errorf("%q parsed again from its list = %q", got, again)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, test := range []struct{ word, remedy string }{
		{"", "is empty"},
		{" , ", "is empty"},
		{"internet,example.com", "stands alone"},
		{"https://example.com/x", "write the host alone"},
		{"10.0.0.0/8", "list the addresses"},
		{"user@example.com", "without a user name"},
		{"*", `write "internet"`},
		{"*:443", `write "internet"`},
		{"a*.example.com", "only at the beginning"},
		{"*.*.example.com", "only at the beginning"},
		{"*.", "the host is missing"},
		{"*.192.0.2.1", "not before an address"},
		{"example.com:", "port after the colon is missing"},
		{"example.com:0", "1 to 65535"},
		{"example.com:65536", "1 to 65535"},
		{"example.com:0443", "1 to 65535"},
		{"example.com:+443", "1 to 65535"},
		{"example.com:https", "1 to 65535"},
		{":443", "the host is missing"},
		{"a..b", "1 to 63"},
		{"-a.test", "hyphen"},
		{strings.Repeat("a", 64) + ".test", "1 to 63"},
		{strings.Repeat("a.", 127) + "test", "253 characters"},
		{strings.Repeat("a", 300), "253 characters"},
		{"bücher.example", "xn--"},
		{"127.1", "four decimal numbers"},
		{"0177.0.0.1", "four decimal numbers"},
		{"0x7f000001:80", "four decimal numbers"},
		{"[fe80::1%eth0]:80", "zone"},
		{"[::ffff:192.0.2.1]", "mapped"},
		{"[2001:db8::1]443", "brackets"},
		{"[192.0.2.1]:80", "brackets"},
		{"2001:db8::1::443", "IPv6"},
		{"a!b", "letters, digits"},
	} {
		_, err := egress.Parse([]string{test.word})
		if err == nil || !strings.Contains(err.Error(), test.remedy) {
			t.Errorf("%q: %v, want %q", test.word, err, test.remedy)
		}
	}
	if _, err := egress.Parse([]string{"ok.test", "b@d"}); err == nil || !strings.Contains(err.Error(), `"b@d"`) {
		t.Errorf("the error does not name the pattern: %v", err)
	}
}

func TestParseIsBounded(t *testing.T) {
	var words []string
	for i := range 256 {
		words = append(words, fmt.Sprintf("h%d.test", i))
	}
	full := parse(t, words...)
	if n := len(full.Strings()); n != 256 {
		t.Errorf("%d patterns", n)
	}
	if again := parse(t, full.String()); again != full {
		t.Error("the text of a full policy reads differently")
	}
	if _, err := egress.Parse(append(words, "one-more.test")); err == nil || !strings.Contains(err.Error(), "256") {
		t.Errorf("257 patterns: %v", err)
	}
}

// TestUnreadable: text that never came from Parse must not widen anything.
func TestUnreadable(t *testing.T) {
	for _, text := range []egress.Policy{"", ",", "internet,x.test", "*", "https://example.com"} {
		if got := text.String(); got != "provider" {
			t.Errorf("%q = %q", text, got)
		}
		if text.Allows("example.com:443") {
			t.Errorf("%q allows example.com", text)
		}
	}
}

func TestAllows(t *testing.T) {
	for _, test := range []struct {
		policy string
		allow  []string
		deny   []string
	}{
		{"provider", nil, []string{"example.com:443"}},
		{"internet", []string{"example.com:443", "example.com:22", "192.0.2.1:80"}, []string{"example.com", "127.1:80"}},
		{"host", []string{"example.com:443"}, nil},
		{"example.com", []string{"example.com:443", "EXAMPLE.COM.:80"}, []string{"example.com:8080", "api.example.com:443", "badexample.com:443", "example.com.evil.test:443"}},
		{"*.example.com:443", []string{"a.example.com:443", "a.b.example.com:443"}, []string{"example.com:443", "a.example.com:80", "badexample.com:443", ".example.com:443"}},
		{"192.0.2.1:22", []string{"192.0.2.1:22"}, []string{"192.0.2.1:443", "192.0.2.10:22", "[::ffff:192.0.2.1]:22"}},
		{"[2001:db8::1]", []string{"[2001:DB8:0:0::1]:443"}, []string{"[2001:db8::2]:443", "2001:db8::1:443"}},
	} {
		p := parse(t, test.policy)
		for _, target := range test.allow {
			if !p.Allows(target) {
				t.Errorf("%s denies %s", p, target)
			}
		}
		for _, target := range test.deny {
			if p.Allows(target) {
				t.Errorf("%s allows %s", p, target)
			}
		}
	}
}

func TestStrings(t *testing.T) {
	want := []string{"*.b.test", "a.test:22"}
	if diff := cmp.Diff(want, parse(t, "a.test:22", "*.b.test").Strings()); diff != "" {
		t.Error(diff)
	}
}
