package e2e

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A shelf is a server with something for each tool to download, over HTTP and HTTPS,
// on this machine, where agents have no business unless the operator allows it.
type shelf struct{ plain, tls *httptest.Server }

// newShelf serves what is below root. pair is for its HTTPS.
func newShelf(t *testing.T, root string, pair tls.Certificate) shelf {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello from the host") })
	mux.HandleFunc("/npm/tiny", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, npmPackage(r.Host)) })
	mux.Handle("/files/", http.StripPrefix("/files/", http.FileServer(http.Dir(root))))
	mux.Handle("/git/", &cgi.Handler{
		Path: gitBackend(t), Root: "/git", Env: []string{"GIT_PROJECT_ROOT=" + filepath.Join(root, "git"), "GIT_HTTP_EXPORT_ALL=1"},
	})
	s := shelf{at(t, mux), at(t, mux)}
	s.plain.Start()
	s.tls.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.tls.StartTLS()
	return s
}

// at is a server at ownAddress that has not been started.
func at(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that distrust the certificate
	s.Listener.Close()
	l, err := net.Listen("tcp", net.JoinHostPort(ownAddress(t), "0"))
	must(t, err)
	s.Listener = l
	t.Cleanup(s.Close)
	return s
}

// allow is what --egress-allow takes.
func (s shelf) allow() string {
	return s.plain.Listener.Addr().String() + "," + s.tls.Listener.Addr().String()
}

// ownAddress is one of this machine that is not the loopback's, for which Go and
// others use no proxy.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	must(t, err)
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Fatal("this machine has no address but the loopback's: give it a network, a dummy one is enough")
	return ""
}

func gitBackend(t *testing.T) string {
	t.Helper()
	dir, err := exec.Command("git", "--exec-path").Output()
	must(t, err)
	return filepath.Join(strings.TrimSpace(string(dir)), "git-http-backend")
}

// fill makes what is to be downloaded.
func fill(t *testing.T, root string) {
	t.Helper()
	gitRepository(t, filepath.Join(root, "git", "tiny.git"))
	write(t, filepath.Join(root, "tiny.tgz"), npmTarball(t))
	write(t, filepath.Join(root, "simple", "tiny", "tiny-1.0.0-py3-none-any.whl"), wheel(t))
	goModule(t, filepath.Join(root, "go", "example.test", "tiny", "@v"))
}

func gitRepository(t *testing.T, dir string) {
	t.Helper()
	work := t.TempDir()
	write(t, filepath.Join(work, "README"), "cloned from the host\n")
	for _, args := range [][]string{
		{"init", "-q", work}, {"-C", work, "add", "README"},
		{"-C", work, "-c", "user.name=e2e", "-c", "user.email=e2e@example.test", "commit", "-qm", "one"},
		{"clone", "-q", "--bare", work, dir},
	} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
}

// npmPackage is what a registry at host says about the package tiny.
func npmPackage(host string) string {
	text, err := json.Marshal(obj{
		"name": "tiny", "dist-tags": obj{"latest": "1.0.0"},
		"versions": obj{"1.0.0": obj{
			"name": "tiny", "version": "1.0.0", "dist": obj{"tarball": "http://" + host + "/files/tiny.tgz"},
		}},
	})
	if err != nil {
		panic(err)
	}
	return string(text)
}

func npmTarball(t *testing.T) string {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	files := tar.NewWriter(packed)
	for name, text := range map[string]string{
		"package/package.json": `{"name":"tiny","version":"1.0.0","main":"index.js"}`,
		"package/index.js":     `console.log("installed from the host")`,
	} {
		must(t, files.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}))
		_, err := files.Write([]byte(text))
		must(t, err)
	}
	must(t, files.Close())
	must(t, packed.Close())
	return out.String()
}

// wheel is a package for pip.
func wheel(t *testing.T) string {
	const info = "tiny-1.0.0.dist-info/"
	return zipped(t, map[string]string{
		"tiny.py":         "print('imported from the host')\n",
		info + "METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0.0\n",
		info + "WHEEL":    "Wheel-Version: 1.0\nGenerator: e2e\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		info + "RECORD":   "tiny.py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n",
	})
}

func zipped(t *testing.T, files map[string]string) string {
	t.Helper()
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for name, text := range files {
		f, err := z.Create(name)
		must(t, err)
		_, err = f.Write([]byte(text))
		must(t, err)
	}
	must(t, z.Close())
	return out.String()
}

// goModule makes the files that a module proxy serves of example.test/tiny.
func goModule(t *testing.T, dir string) {
	t.Helper()
	const mod = "module example.test/tiny\n\ngo 1.21\n"
	write(t, filepath.Join(dir, "list"), "v1.0.0\n")
	write(t, filepath.Join(dir, "v1.0.0.info"), `{"Version":"v1.0.0","Time":"2024-01-01T00:00:00Z"}`)
	write(t, filepath.Join(dir, "v1.0.0.mod"), mod)
	write(t, filepath.Join(dir, "v1.0.0.zip"), zipped(t, map[string]string{
		"example.test/tiny@v1.0.0/go.mod":  mod,
		"example.test/tiny@v1.0.0/main.go": "package main\n\nfunc main() {}\n",
	}))
}

// certificate makes one for ownAddress that nobody knows, and a file for those who are
// to trust it.
func certificate(t *testing.T, path string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "e2e"}, IPAddresses: []net.IP{net.ParseIP(ownAddress(t))},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	must(t, err)
	write(t, path, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// goRoot is where the Go of these tests is installed.
func goRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	must(t, err)
	real, err := filepath.EvalSymlinks(strings.TrimSpace(string(out)))
	must(t, err)
	return real
}

// exists reports whether there is a file.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
