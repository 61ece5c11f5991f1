package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"pi-mcp/cage/landlock"
)

// work is what agents do with files, and ends with "done".
const work = `bash: set -e; cd $(mktemp -d %/XXXXXX); mkdir -p a/b; echo x >a/b/f; mv a/b/f g; mv a/b c; ln g h; ln -s g i; rm -r a h
git init -q .; git add .; git -c user.name=a -c user.email=a@example.com commit -qm one
echo x >/tmp/f; mv /tmp/f moved; echo x >~/f; echo x >/dev/shm/f; : >/dev/null; echo 500 >/proc/self/oom_score_adj
node -e 'const c = require("child_process"), fs = require("fs"); fs.writeFileSync("n", c.execFileSync("cat", ["g"]));
new (require("worker_threads").Worker)("require(\"fs\").renameSync(\"n\", \"c/n\")", { eval: true })'
sleep 60 & kill $!; test -e c/n; (kill -0 1) 2>/dev/null && echo pid 1 can be signalled; echo done`

// A real pi does its work in the host's network as in one of its own. There it is
// behind a second wall, of which the one thing to be seen is what signals reach.
func TestHostNetwork(t *testing.T) {
	t.Parallel()
	w, _ := newReal(t)
	c := w.client()
	for _, policy := range []string{"host", "provider"} {
		project := filepath.Join(w.dir, "project-"+policy)
		write(t, filepath.Join(project, "README"), "x")
		a := c.run(obj{"network": policy, "write": []string{project}})
		for range 2 {
			answer := c.ask(a.ID, strings.ReplaceAll(work, "%", project)).text()
			has(t, policy, answer, "done")
			walled := policy == "host" && landlock.ABI() >= 6
			if strings.Contains(answer, "pid 1 can be signalled") == walled {
				t.Errorf("%s: behind a wall: want %t: %s", policy, walled, answer)
			}
			call[info](c, "rip", obj{"agent_id": a.ID})
			call[info](c, "resurrect", obj{"agent_id": a.ID})
		}
	}
}
