package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

// A download is a command that gets something from a shelf, at PLAIN or TLS.
type download struct {
	name, command string
	prints        string // when it has it
	refused       string // when it may not
}

// why is the proxy's reason, as far as it is the same for all.
const why = "not allowed by this agent's network policy"

// downloads are those of the tools that agents use. Where a cage has no npm or Python,
// there is nothing to be shown. curl and git say no more of a failed CONNECT than its
// number unless they are asked.
func downloads(host, ca, goRoot string) (all []download) {
	const fetch = `fetch("URL").then(async r => console.log(r.status, r.statusText, await r.text()), e => console.log(require("util").inspect(e, {depth: 9})))`
	node := func(url string) string { return `node -e '` + strings.Replace(fetch, "URL", url, 1) + `'` }
	all = []download{
		{"curl", `curl -sS PLAIN/page`, "hello from the host", why},
		{"curl over TLS", `curl -sS --cacert ` + ca + ` TLS/page`, "hello from the host", "CONNECT tunnel failed, response 403"},
		{"curl that talks", `curl -v --cacert ` + ca + ` TLS/page`, "hello from the host", why},
		{"git", `git clone -q PLAIN/git/tiny.git one && cat one/README`, "cloned from the host", why},
		{"git over TLS", `git -c http.sslCAInfo=` + ca + ` clone -q TLS/git/tiny.git two && cat two/README`, "cloned from the host", "CONNECT tunnel failed, response 403"},
		{"node", node("PLAIN/page"), "hello from the host", "403"},
		{"node over TLS", `NODE_EXTRA_CA_CERTS=` + ca + ` ` + node("TLS/page"), "hello from the host", "403"},
		{"go", `GOMODCACHE=$PWD GOFLAGS=-modcacherw GOPROXY=PLAIN/files/go GOSUMDB=off GOTOOLCHAIN=local ` + goRoot + `/bin/go mod download -json example.test/tiny@v1.0.0`, `v1.0.0.zip`, why},
	}
	if npm, err := exec.LookPath("npm"); err == nil && strings.HasPrefix(npm, "/usr/") {
		all = append(all, download{"npm", `mkdir n; cd n; npm install --no-audit --no-fund --fetch-retries=0 --registry PLAIN/npm/ tiny && node -e 'require("tiny")'`, "installed from the host", why})
	}
	if exists("/usr/bin/python3") {
		all = append(all, download{"python", `/usr/bin/python3 -c 'import urllib.request as u; print(u.urlopen("PLAIN/page").read().decode())'`, "hello from the host", why})
	}
	if exec.Command("/usr/bin/python3", "-m", "pip", "--version").Run() == nil {
		all = append(all, download{"pip", `/usr/bin/python3 -m pip install -vv --no-deps --retries 0 --disable-pip-version-check --trusted-host ` + host + ` --index-url PLAIN/files/simple --target p tiny && PYTHONPATH=p /usr/bin/python3 -c 'import tiny'`, "imported from the host", why})
	}
	return all
}

// The tools that agents use get through the proxy where the operator allows it, and
// elsewhere show why not.
func TestToolsThroughProxy(t *testing.T) {
	t.Parallel()
	w, _ := newReal(t)
	fill(t, w.path("shelf"))
	ca := w.path("ca", "ca.pem")
	pair := certificate(t, ca)
	open, closed := newShelf(t, w.path("shelf"), pair), newShelf(t, w.path("shelf"), pair)
	c := w.client("PI_MCP_EGRESS_ALLOW=" + open.allow())
	root := goRoot(t)
	a := c.run(obj{"read": []string{w.path("ca"), root}})
	for _, d := range downloads(ownAddress(t), ca, root) {
		for _, s := range []shelf{open, closed} {
			command := strings.NewReplacer("PLAIN", s.plain.URL, "TLS", s.tls.URL).Replace(d.command)
			text := c.ask(a.ID, `bash: cd $(mktemp -d) && { `+command+`; } 2>&1`).text()
			got, refused := strings.Contains(text, d.prints), strings.Contains(text, d.refused)
			if allowed := s == open; got != allowed || refused == allowed {
				t.Errorf("%s, allowed %v: %s", d.name, allowed, text)
			}
		}
	}
}
