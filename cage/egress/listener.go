package egress

import (
	"net"
	"sync"
)

// spareConns may be open beyond the agent's limit, so that it is told of it. Beyond
// those nothing is accepted until one ends.
const spareConns = 16

// A listener accepts an agent's connections within its limit.
type listener struct {
	net.Listener
	p *Proxy
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case l.p.slots <- struct{}{}:
	case <-l.p.ctx.Done():
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.p.slots
		return nil, err
	}
	return l.p.admit(conn)
}

// A clientConn is a connection from the agent. Its Close is the only one: it gives
// back the slot.
type clientConn struct {
	net.Conn
	p    *Proxy
	over bool // beyond the limit
	once sync.Once
}

// clientKey is the context key of a request's *clientConn.
type clientKey struct{}

func (p *Proxy) admit(conn net.Conn) (net.Conn, error) {
	c := &clientConn{Conn: conn, p: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		conn.Close()
		<-p.slots
		return nil, net.ErrClosed
	}
	c.over = len(p.conns) >= p.maxConns
	p.conns[c] = struct{}{}
	return c, nil
}

func (c *clientConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.p.mu.Lock()
		delete(c.p.conns, c)
		c.p.mu.Unlock()
		<-c.p.slots
	})
	return err
}

// CloseWrite is here for the server, which ends a refused connection with it so that
// the client can read why.
func (c *clientConn) CloseWrite() error { return closeWrite(c.Conn) }

// closeWrite ends one direction of a connection that can do so, or else both.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
