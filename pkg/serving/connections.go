package serving

import (
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// maxParallel is the number of concurrent requests on one HTTP/2 connection, and maxUnread how many bytes of them are buffered before they are
	// read.
	maxParallel = 100
	maxUnread   = 256 << 10
)

// BoundConnections limits a server, before it serves, to a number of concurrent connections, each of which takes some tens of kilobytes, and cuts
// those with more cancelled requests than a legitimate client sends.
func BoundConnections(server *http.Server, most int, clock func() time.Time) {
	known := newConnections(most, clock)
	server.Handler = limitAbandoned(server.Handler)
	server.ConnState, server.ConnContext = known.trackState, known.from.withPeer
	server.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: maxParallel, MaxReceiveBufferPerConnection: maxUnread, MaxReceiveBufferPerStream: maxUnread,
	}
}

// connections limits the number of open connections. An excess connection closes an idle one of the address that has most of them: a client that
// opens thousands loses its own, and all others can still connect. Busy connections are not closed for others, so an address may have three quarters
// of all at most; that is enough for a proxy in front of everybody. It also limits how many connections an address opens per second, to what the
// server can accept beside its work.
type connections struct {
	most, mostOfAddress int
	from                *addresses

	mu sync.Mutex
	// open contains the connections of each address, and whether each is idle.
	open  map[string]map[net.Conn]bool
	count int
}

func newConnections(most int, clock func() time.Time) *connections {
	return &connections{most: most, mostOfAddress: most - most/4, from: newAddresses(clock), open: map[string]map[net.Conn]bool{}}
}

// trackState tracks every connection, as [http.Server.ConnState]; for a new one it is called by the accept loop.
func (c *connections) trackState(connection net.Conn, state http.ConnState) {
	if chosen := c.countConnection(connection, state); chosen != nil {
		hangUp(chosen)
	}
}

// countConnection counts a connection by its state, and returns the connection to close if there are too many.
func (c *connections) countConnection(connection net.Conn, state http.ConnState) (chosen net.Conn) {
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
	if c.count <= c.most && len(known) <= c.mostOfAddress {
		return nil
	}
	return c.chooseIdle(connection, host)
}

// chooseIdle returns an idle connection of the address with the most connections among those that have an idle one, if it has no fewer than the
// address of the newest; else the newest itself. It is counted until the server reports that it is closed, and is no longer idle.
func (c *connections) chooseIdle(newest net.Conn, from string) net.Conn {
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

// hangUp closes a connection; the server notices and reports it. It bypasses TLS, which would announce the close first, and wait up to five seconds
// for a client that does not read.
func hangUp(connection net.Conn) {
	if secure, ok := connection.(interface{ NetConn() net.Conn }); ok {
		connection = secure.NetConn()
	}
	_ = connection.Close() // the error is of no use to the client
}

// HostOf returns an address without its port.
func HostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}
