package egress

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A flow is one agent's connection joined to one outside. It is owned by the handler
// of the request that asked for it.
type flow struct {
	p       *Proxy
	client  *clientConn
	up      net.Conn
	out, in atomic.Int64 // bytes
}

const (
	// piece is how much is moved before it is counted. It is moved inside the
	// kernel, so the size is no buffer.
	piece = 256 << 10

	// looks is how often in a row nothing must have moved for a flow to be idle,
	// in equal parts of the idle time. Counted and not measured, because a
	// machine that sleeps is not an idle connection.
	looks = 4
)

func (f *flow) step() time.Duration { return max(f.p.idle/looks, time.Millisecond) }

// close ends both sides; whoever reads or writes either of them returns. The client's
// slot is given back when the other connection is gone, so that the limit holds for
// those outside too.
func (f *flow) close() {
	f.up.Close()
	f.client.Close()
}

// guard returns when done is closed, and until then watches that something moves.
func (f *flow) guard(done <-chan struct{}) {
	tick := time.NewTicker(f.step())
	defer tick.Stop()
	for seen, quiet := int64(0), 0; ; {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		if moved := f.out.Load() + f.in.Load(); moved != seen {
			seen, quiet = moved, 0
		} else if quiet++; quiet == looks {
			f.close()
		}
	}
}

// tunnel answers a CONNECT and carries both directions until both have ended. The
// end of one is passed on and leaves the other open.
func (f *flow) tunnel(w http.ResponseWriter) {
	_, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer f.close()
	early, _ := buffered.Reader.Peek(buffered.Reader.Buffered())
	if _, err := io.WriteString(f.client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() {
		n, _ := f.up.Write(early) // an error comes back at once
		f.countOut(int64(n))
		f.carry(f.up, f.client.Conn, f.countOut)
	})
	both.Go(func() { f.carry(f.client.Conn, f.up, f.countIn) })
	done := make(chan struct{})
	go func() {
		both.Wait()
		close(done)
	}()
	f.guard(done)
}

// carry moves one direction to its end. The deadline is for counting: what trickles
// would otherwise not be seen by guard before a piece of it is full. It is one for
// reading only, and so never strikes with bytes in flight.
func (f *flow) carry(to, from net.Conn, count func(int64)) {
	for {
		from.SetReadDeadline(time.Now().Add(f.step()))
		n, err := io.CopyN(to, from, piece)
		count(n)
		switch {
		case err == nil || errors.Is(err, os.ErrDeadlineExceeded):
		case err == io.EOF:
			closeWrite(to)
			return
		default:
			f.close()
			return
		}
	}
}

func (f *flow) countOut(n int64) {
	f.out.Add(n)
	f.p.out.Add(n)
}

func (f *flow) countIn(n int64) {
	f.in.Add(n)
	f.p.in.Add(n)
}
