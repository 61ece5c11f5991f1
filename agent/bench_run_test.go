package agent_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pi-mcp/agent"
	"pi-mcp/agent/pi"
	"pi-mcp/agent/pirpc"
)

// realPi is the pi that `make setup` installs.
const realPi = "../.tools/node_modules/.bin/pi"

// BenchmarkRun is what run adds to a bare handshake of the same real pi, both
// with warm compile caches, in turn: the files, the first process, the filter, a network
// and an endpoint of its own. Target: 80 ms at the median.
func BenchmarkRun(b *testing.B) {
	path, err := filepath.Abs(realPi)
	must(b, err)
	w, _ := newDesk(b, func(c *agent.Config) { c.Pi, c.Provider, c.Model = path, "bench", "bench-model" })
	host := filepath.Join(w.dir, "host")
	realProvider(b, host)
	bare := newBare(b, path, host)
	bare.handshake(b) // fills its cache
	w.remove(w.run(agent.RunRequest{}).AgentID)
	var alone, run []time.Duration
	for b.Loop() {
		alone = append(alone, bare.handshake(b))
		began := time.Now()
		a := w.run(agent.RunRequest{})
		run = append(run, time.Since(began))
		w.remove(a.AgentID)
	}
	b.ReportMetric(ms(median(alone)), "bare-ms")
	b.ReportMetric(ms(median(run)), "run-ms")
	b.ReportMetric(ms(median(run)-median(alone)), "added-ms")
	b.ReportMetric(80, "target-ms")
}

// realProvider tells a real pi, whose directory is host, of a provider that no
// agent ever speaks to.
func realProvider(t testing.TB, host string) {
	t.Helper()
	const models = `{"providers":{"bench":{"baseUrl":"http://127.0.0.1:9/v1","api":"openai-completions","models":[{"id":"bench-model"}]}}}`
	must(t, os.WriteFile(filepath.Join(host, "models.json"), []byte(models), 0o600))
	must(t, os.WriteFile(filepath.Join(host, "auth.json"), []byte(`{"bench":{"type":"api_key","key":"k"}}`), 0o600))
	t.Setenv("PI_CODING_AGENT_DIR", host)
}

func (w *world) remove(id string) {
	w.t.Helper()
	_, err := w.sup.Remove(w.t.Context(), w.who, id, false)
	must(w.t, err)
}

// A bare starts pi without cage and supervisor.
type bare struct {
	argv []string
	env  []string
	dir  string
}

func newBare(b *testing.B, path, host string) bare {
	b.Helper()
	install, err := pi.Find(b.Context(), pi.Config{Pi: path, Path: os.Getenv("PATH")})
	must(b, err)
	args, err := pi.Args("bench", "bench-model", "")
	must(b, err)
	dir := b.TempDir()
	args[slices.Index(args, "/agent_session.jsonl")] = filepath.Join(dir, "session.jsonl")
	files, err := pi.Files(pi.FilesConfig{HostDir: host, Provider: "bench", Model: "bench-model", Key: "k"})
	must(b, err)
	for name, content := range files {
		must(b, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	return bare{argv: append(install.Host, args...), dir: dir, env: append(os.Environ(),
		"PI_CODING_AGENT_DIR="+dir, "PI_OFFLINE=1", "NODE_COMPILE_CACHE="+filepath.Join(dir, "cache"), "HOME="+dir)}
}

// handshake starts pi and returns how long the first answer took. The process is
// gone when it returns.
func (r bare) handshake(b *testing.B) time.Duration {
	b.Helper()
	must(b, os.WriteFile(filepath.Join(r.dir, "session.jsonl"), nil, 0o600))
	cmd := exec.Command(r.argv[0], r.argv[1:]...)
	cmd.Env, cmd.Dir = r.env, r.dir
	in, err := cmd.StdinPipe()
	must(b, err)
	out, err := cmd.StdoutPipe()
	must(b, err)
	began := time.Now()
	must(b, cmd.Start())
	c := pirpc.New(pirpc.Config{In: in, Out: out, On: func(pirpc.Record) {}})
	must(b, c.Call(b.Context(), "get_state", nil, nil))
	took := time.Since(began)
	must(b, c.CloseInput())
	<-c.Done()
	must(b, cmd.Wait())
	return took
}

func median(all []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
