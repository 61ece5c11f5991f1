package egress

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
)

// forward passes a plain HTTP request on over f.up, which serves this one only: the
// next on the same client connection is checked and connected anew.
func (f *flow) forward(w http.ResponseWriter, r *http.Request, t target) {
	transport := f.transport()
	defer transport.CloseIdleConnections()
	var guard sync.WaitGroup
	done := make(chan struct{})
	guard.Go(func() { f.guard(done) })
	defer guard.Wait()
	defer close(done)
	proxy := httputil.ReverseProxy{
		Rewrite:        func(pr *httputil.ProxyRequest) { rewrite(pr, t) },
		Transport:      transport,
		FlushInterval:  -1, // a stream of events must not wait for more
		ModifyResponse: refuseUpgrade,
		ErrorLog:       slog.NewLogLogger(f.p.log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "cannot get an answer from "+t.String()+": "+cause(err).Error(), http.StatusBadGateway)
		},
	}
	proxy.ServeHTTP(w, r)
}

// rewrite makes the request that is sent. ReverseProxy has taken out the hop-by-hop
// headers, those that Connection names and Proxy-Authorization among them.
func rewrite(pr *httputil.ProxyRequest, t target) {
	pr.Out.URL.Host = t.String()
	pr.Out.URL.RawQuery = pr.In.URL.RawQuery // as it was written
	pr.Out.Host = t.String()
	if t.port == portHTTP {
		pr.Out.Host = exactly(t.host, t.port).host
	}
	pr.Out.Header.Del("Connection")
	pr.Out.Header.Del("Upgrade")
}

// refuseUpgrade keeps a connection what it was checked as; what wants another
// protocol can use CONNECT.
func refuseUpgrade(r *http.Response) error {
	if r.StatusCode == http.StatusSwitchingProtocols {
		return errors.New("it changes the protocol, for which CONNECT is needed")
	}
	return nil
}

// transport sends over f.up, once.
func (f *flow) transport() *http.Transport {
	var once sync.Once
	return &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			err := errors.New("the connection was lost")
			once.Do(func() { err = nil })
			if err != nil {
				return nil, err
			}
			return counted{f.up, f}, nil
		},
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 1 << 20,
	}
}

// counted counts what passes, for guard as well.
type counted struct {
	net.Conn
	f *flow
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.f.countIn(int64(n))
	return n, err
}

func (c counted) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.f.countOut(int64(n))
	return n, err
}
