package serving

import (
	"net"
	"net/http"
	"testing"
	"time"
)

// named is a connection from an address, and whether it was closed.
type named struct {
	net.Conn
	from   string
	closed bool
}

func (n *named) RemoteAddr() net.Addr { return text(n.from + ":1") }
func (n *named) Close() error         { n.closed = true; return nil }

type text string

func (t text) Network() string { return "tcp" }
func (t text) String() string  { return string(t) }

// TestWhoOpensManyConnectionsLosesTheirOwn: idle ones first, and never those of others.
func TestWhoOpensManyConnectionsLosesTheirOwn(t *testing.T) {
	c := newConnections(10, time.Now)
	open := func(from string, states ...http.ConnState) *named {
		one := &named{from: from}
		for _, state := range append([]http.ConnState{http.StateNew}, states...) {
			c.trackState(one, state)
		}
		return one
	}
	quiet := open("10.0.0.1", http.StateActive, http.StateIdle)
	busy := open("10.0.0.2", http.StateActive)
	var greedy []*named
	for range 30 {
		one := open("10.0.0.2")
		greedy = append(greedy, one)
		for _, known := range greedy { // the server tells of those that are closed
			if known.closed {
				c.trackState(known, http.StateClosed)
			}
		}
	}
	late := open("10.0.0.3")
	closed := 0
	for _, one := range greedy {
		if one.closed {
			closed++
			c.trackState(one, http.StateClosed)
		}
	}
	if quiet.closed || busy.closed || late.closed || closed != 23 || c.count != 10 {
		t.Errorf("closed are the quiet one: %t, the busy one: %t, the late one: %t, of the greedy %d; %d are counted",
			quiet.closed, busy.closed, late.closed, closed, c.count)
	}
	c.trackState(quiet, http.StateClosed)
	c.trackState(quiet, http.StateClosed)
	if c.count != 9 || len(c.open) != 2 {
		t.Errorf("%d connections of %d addresses are counted", c.count, len(c.open))
	}
}

// TestOneThatComesWhileAllAreBusyIsClosed itself.
func TestOneThatComesWhileAllAreBusyIsClosed(t *testing.T) {
	c := newConnections(1, time.Now)
	busy, late := &named{from: "a"}, &named{from: "a"}
	c.trackState(busy, http.StateNew)
	c.trackState(busy, http.StateActive)
	c.trackState(late, http.StateNew)
	if busy.closed || !late.closed {
		t.Errorf("closed are the busy one: %t, the late one: %t", busy.closed, late.closed)
	}
}

// TestTheBusyOfOneAddressKeepNobodyOut: who comes from elsewhere gets the place of one that is idle.
func TestTheBusyOfOneAddressKeepNobodyOut(t *testing.T) {
	c := newConnections(4, time.Now)
	idle := &named{from: "b"}
	c.trackState(idle, http.StateNew)
	c.trackState(idle, http.StateIdle)
	busy := make([]*named, 4)
	for i := range busy {
		busy[i] = &named{from: "a"}
		c.trackState(busy[i], http.StateNew)
		c.trackState(busy[i], http.StateActive)
	}
	if idle.closed || !busy[3].closed {
		t.Errorf("closed are the idle one of another: %t, the last of many: %t", idle.closed, busy[3].closed)
	}
	c.trackState(busy[3], http.StateClosed)
	late := &named{from: "c"}
	c.trackState(late, http.StateNew)
	if late.closed || !idle.closed {
		t.Errorf("closed are the late one: %t, the idle one: %t", late.closed, idle.closed)
	}
}

// lingering is a TLS connection whose client reads nothing: to close it takes as long as its answer is waited for.
type lingering struct{ named }

func (l *lingering) NetConn() net.Conn { return &l.named }
func (*lingering) Close() error        { select {} }

// TestAnAddressLeavesPlacesForOthers even while all of its connections are busy, and nothing can be closed for a newcomer.
func TestAnAddressLeavesPlacesForOthers(t *testing.T) {
	c := newConnections(8, time.Now)
	open := func(from string) *named {
		one := &named{from: from}
		c.trackState(one, http.StateNew)
		c.trackState(one, http.StateActive)
		if one.closed {
			c.trackState(one, http.StateClosed)
		}
		return one
	}
	for i := range 20 {
		if one := open("a"); one.closed != (i >= 6) {
			t.Errorf("connection %d of one address is closed: %t, want 6 of 8 places for it", i, one.closed)
		}
	}
	for i, from := range []string{"b", "c"} {
		if open(from).closed {
			t.Errorf("address %d of others is refused, while one address keeps its connections busy", i)
		}
	}
	if !open("d").closed || c.count != 8 {
		t.Errorf("%d connections are open, want 8 at most", c.count)
	}
}

// TestClosingAConnectionKeepsNobodyWaiting: it is the loop that accepts all others that closes it.
func TestClosingAConnectionKeepsNobodyWaiting(t *testing.T) {
	c := newConnections(1, time.Now)
	quiet, late := &lingering{named{from: "a"}}, &named{from: "b"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.trackState(quiet, http.StateNew)
		c.trackState(quiet, http.StateIdle)
		c.trackState(late, http.StateNew)
	}()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("it waits for the client")
	}
	if !quiet.closed || late.closed {
		t.Errorf("closed are the quiet one: %t, the late one: %t", quiet.closed, late.closed)
	}
}
