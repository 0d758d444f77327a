package server

import (
	"net"
	"net/http"
	"sync"
)

// maxConnections is how many connections are open at once, each some tens of kilobytes.
const maxConnections = 4096

// connections keeps those that are open to so many. One more closes one that is idle, of the address that has most of
// them: who opens thousands loses their own, and everybody else still gets in.
type connections struct {
	most int

	mu sync.Mutex
	// open are the connections of each address, and whether each is idle.
	open  map[string]map[net.Conn]bool
	count int
}

func newConnections(most int) *connections {
	return &connections{most: most, open: map[string]map[net.Conn]bool{}}
}

// changed is told of every connection, as [http.Server.ConnState].
func (c *connections) changed(connection net.Conn, state http.ConnState) {
	host := hostOf(connection.RemoteAddr().String())
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
		return
	case http.StateNew:
		if known == nil {
			known = map[net.Conn]bool{}
			c.open[host] = known
		}
		c.count++
	default:
		if !counted {
			return
		}
	}
	known[connection] = state != http.StateActive
	if c.count > c.most {
		c.closeIdle(connection)
	}
}

// closeIdle closes an idle connection other than the one that came, or that one if there is no other.
func (c *connections) closeIdle(newest net.Conn) {
	var fullest map[net.Conn]bool
	for _, known := range c.open {
		if len(known) > len(fullest) {
			fullest = known
		}
	}
	chosen := newest
	for connection, idle := range fullest {
		if idle && connection != newest {
			chosen = connection
			break
		}
	}
	_ = chosen.Close() // the server notices, and tells changed
}

// hostOf is an address without its port.
func hostOf(address string) string {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return host
}
