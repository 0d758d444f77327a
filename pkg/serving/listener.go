package serving

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxHeader is how many bytes a connection may send for one request, its header among them.
const maxHeader = 128 << 10

// errTooLong ends a connection that sends more than a request may have.
var errTooLong = errors.New("the request is too long")

// BoundListener is [Bound] for a server of HTTP/1 that somebody else makes of a listener and a handler, and lets nobody add to. What a request may
// send is bounded as well, which such a server may read before it is known who asks.
func BoundListener(listener net.Listener, next http.Handler, most int, clock func() time.Time) (net.Listener, http.Handler) {
	b := &boundListener{Listener: listener, known: newConnections(most, clock), by: map[string]*boundConn{}}
	return b, b.noting(next)
}

type boundListener struct {
	net.Listener
	known *connections

	mu sync.Mutex
	// by are the connections by where they come from, by which a request knows its own.
	by map[string]*boundConn
}

// Accept implements net.Listener. A connection that is one too many is closed already.
func (b *boundListener) Accept() (net.Conn, error) {
	accepted, err := b.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // as the server expects it
	}
	one := &boundConn{Conn: accepted, of: b}
	b.mu.Lock()
	b.by[accepted.RemoteAddr().String()] = one
	b.mu.Unlock()
	b.known.changed(one, http.StateNew)
	return one, nil
}

// noting tells which connections are busy: from the moment at which a request has been read until it is answered.
func (b *boundListener) noting(next http.Handler) http.Handler {
	next = abandoning(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		one := b.by[r.RemoteAddr]
		b.mu.Unlock()
		if one == nil { // it is closed
			next.ServeHTTP(w, r)
			return
		}
		b.known.changed(one, http.StateActive)
		defer func() {
			one.beginAnew()
			b.known.changed(one, http.StateIdle)
		}()
		next.ServeHTTP(w, r.WithContext(b.known.from.connected(r.Context(), one)))
	})
}

// boundConn is a connection that is counted until it is closed.
type boundConn struct {
	net.Conn
	of     *boundListener
	closed sync.Once

	mu   sync.Mutex
	read int
}

// Read implements net.Conn.
func (c *boundConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read += n; c.read > maxHeader {
		return 0, errTooLong
	}
	return n, err //nolint:wrapcheck // as the server expects it
}

// beginAnew has the next request counted from nothing.
func (c *boundConn) beginAnew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = 0
}

// Close implements net.Conn.
func (c *boundConn) Close() error {
	c.closed.Do(func() {
		c.of.mu.Lock()
		if at := c.RemoteAddr().String(); c.of.by[at] == c {
			delete(c.of.by, at)
		}
		c.of.mu.Unlock()
		c.of.known.changed(c, http.StateClosed)
	})
	return c.Conn.Close() //nolint:wrapcheck // as the server expects it
}
