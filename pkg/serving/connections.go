package serving

import (
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// maxParallel is how many requests one connection of HTTP/2 carries at a time, and maxUnread how much of them is
	// taken in before it is read.
	maxParallel = 100
	maxUnread   = 256 << 10
)

// Bound keeps a server, which is yet to serve, to so many connections at once, each some tens of kilobytes, and cuts those on which
// more is taken back than by anybody who wants answers.
func Bound(server *http.Server, most int, clock func() time.Time) {
	known := newConnections(most, clock)
	server.Handler = abandoning(server.Handler)
	server.ConnState, server.ConnContext = known.changed, known.from.connected
	server.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: maxParallel, MaxReceiveBufferPerConnection: maxUnread, MaxReceiveBufferPerStream: maxUnread,
	}
}

// connections keeps those that are open to so many. One more closes one that is idle, of the address that has most of
// them: who opens thousands loses their own, and everybody else still gets in. Nor does an address open more in a second
// than the server can greet beside its work.
type connections struct {
	most int
	from *addresses

	mu sync.Mutex
	// open are the connections of each address, and whether each is idle.
	open  map[string]map[net.Conn]bool
	count int
}

func newConnections(most int, clock func() time.Time) *connections {
	return &connections{most: most, from: newAddresses(clock), open: map[string]map[net.Conn]bool{}}
}

// changed is told of every connection, as [http.Server.ConnState]: of a new one by the loop that accepts all others.
func (c *connections) changed(connection net.Conn, state http.ConnState) {
	if chosen := c.note(connection, state); chosen != nil {
		hangUp(chosen)
	}
}

// note counts a connection by its state, and returns which connection to close, if one is too many.
func (c *connections) note(connection net.Conn, state http.ConnState) (chosen net.Conn) {
	host := HostOf(connection.RemoteAddr().String())
	if state == http.StateNew && !c.from.mayConnect(host) {
		return connection
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.open[host]
	_, counted := known[connection]
	switch state {
	case http.StateClosed, http.StateHijacked: // a WebSocket is counted as a stream
		if counted {
			c.count--
			delete(known, connection)
		}
		if len(known) == 0 {
			delete(c.open, host)
		}
		return nil
	case http.StateNew:
		if known == nil {
			known = map[net.Conn]bool{}
			c.open[host] = known
		}
		c.count++
	default:
		if !counted {
			return nil
		}
	}
	known[connection] = state != http.StateActive
	if c.count <= c.most {
		return nil
	}
	return c.choose(connection, host)
}

// choose returns an idle connection of the address with the most connections of those that have one, and no fewer than the
// address of the one that came; or that one if there is none. It is counted until the server tells that it is closed, and
// is not idle any more.
func (c *connections) choose(newest net.Conn, from string) net.Conn {
	fullest, chosen, most := c.open[from], newest, len(c.open[from])-1
	for _, known := range c.open {
		if len(known) <= most {
			continue
		}
		for connection, idle := range known {
			if idle && connection != newest {
				fullest, chosen, most = known, connection, len(known)
				break
			}
		}
	}
	fullest[chosen] = false
	return chosen
}

// hangUp closes a connection; the server notices, and tells changed. TLS would say so first, and wait up to five seconds for a
// client that reads nothing, so it is not asked to.
func hangUp(connection net.Conn) {
	if secure, ok := connection.(interface{ NetConn() net.Conn }); ok {
		connection = secure.NetConn()
	}
	_ = connection.Close() // the client gets nothing that an error could have spared it
}

// HostOf is an address without its port.
func HostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}
