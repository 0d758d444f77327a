package serving

import (
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxHeader is the maximum number of bytes that a connection may send for one request, including its header.
const maxHeader = 128 << 10

// errTooLong ends a connection that sends more than a request may have.
var errTooLong = errors.New("the request is too long")

// BoundListener is [BoundConnections] for an HTTP/1 server that other code creates from a listener and a handler, without access to its settings. It
// also limits the size of a request, which such a server may read before authentication.
func BoundListener(listener net.Listener, next http.Handler, most int, clock func() time.Time) (net.Listener, http.Handler) {
	b := &boundListener{Listener: listener, known: newConnections(most, clock), by: map[string]*boundConn{}}
	return b, b.trackRequests(next)
}

type boundListener struct {
	net.Listener
	known *connections

	mu sync.Mutex
	// by maps remote addresses to connections, so that a request finds its own.
	by map[string]*boundConn
}

// Accept implements net.Listener. An excess connection is already closed.
func (b *boundListener) Accept() (net.Conn, error) {
	accepted, err := b.Listener.Accept()
	if err != nil {
		return nil, err //nolint:wrapcheck // the server expects the original error
	}
	one := &boundConn{Conn: accepted, of: b}
	b.mu.Lock()
	b.by[accepted.RemoteAddr().String()] = one
	b.mu.Unlock()
	b.known.trackState(one, http.StateNew)
	return one, nil
}

// trackRequests tracks which connections are busy: from when a request has been read until it is answered.
func (b *boundListener) trackRequests(next http.Handler) http.Handler {
	next = limitAbandoned(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		one := b.by[r.RemoteAddr]
		b.mu.Unlock()
		if one == nil { // it is closed
			next.ServeHTTP(w, r)
			return
		}
		b.known.trackState(one, http.StateActive)
		defer func() {
			one.beginAnew()
			b.known.trackState(one, http.StateIdle)
		}()
		next.ServeHTTP(w, r.WithContext(b.known.from.withPeer(r.Context(), one)))
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
	return n, err //nolint:wrapcheck // the server expects the original error
}

// beginAnew resets the byte count for the next request.
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
		c.of.known.trackState(c, http.StateClosed)
	})
	return c.Conn.Close() //nolint:wrapcheck // the server expects the original error
}
