package serving

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
)

// Bounds of what costs the server more than its client: connections, each with a handshake; streams of HTTP/2 that are taken
// back before they are answered, of which a packet holds hundreds (CVE-2023-44487); and requests that are refused because
// there were too many.
const (
	// connectRate and connectBurst are the new connections of each address, in which many callers may be.
	connectRate  = 200
	connectBurst = 1000
	// abandonRate and abandonBurst are of each connection. A browser takes back what was asked for a page that is left, and a
	// client that goes takes back all it has open: [maxParallel] at the most.
	abandonRate  = 20
	abandonBurst = 2 * maxParallel
	// abandonFactor is how much more an address may: net/http itself closes connections before all of this is seen.
	abandonFactor = 5
	// maxHeld is how many refusals wait for refusalDelay, and maxHeldEach how many of each address: a client that asks again
	// at once asks no more often than one that waits as it is told to.
	maxHeld      = 2048
	maxHeldEach  = 256
	refusalDelay = time.Second
	// probation is how long an address may only open so many connections a second, once the server has cut one for one of
	// these reasons.
	probation     = 10 * time.Second
	probationRate = 5
	// maxAddresses is how many addresses are remembered, and idleAddress for how long.
	maxAddresses = 16384
	idleAddress  = 10 * time.Minute
)

// addresses is what is known of those who connect, by where they come from: all there is before it is known who calls.
type addresses struct {
	now func() time.Time

	mu sync.Mutex
	// known holds an *address for each that was heard of lately.
	known *cache.LRUExpireCache
	held  int
}

type address struct {
	connects, onProbation, abandoned *rate.Limiter
	// cut is when a connection was last cut.
	cut  time.Time
	held int
}

func newAddresses(clock func() time.Time) *addresses {
	return &addresses{now: clock, known: cache.NewLRUExpireCache(maxAddresses)}
}

func (a *addresses) of(host string) *address {
	if known, ok := a.known.Get(host); ok {
		if from, ok := known.(*address); ok {
			a.known.Add(host, from, idleAddress)
			return from
		}
	}
	from := &address{
		connects:    rate.NewLimiter(connectRate, connectBurst),
		onProbation: rate.NewLimiter(probationRate, probationRate),
		abandoned:   rate.NewLimiter(abandonFactor*abandonRate, abandonFactor*abandonBurst),
	}
	a.known.Add(host, from, idleAddress)
	return from
}

// mayConnect says whether an address may open one connection more.
func (a *addresses) mayConnect(host string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	from, now := a.of(host), a.now()
	if now.Sub(from.cut) < probation && !from.onProbation.AllowN(now, 1) {
		return false
	}
	return from.connects.AllowN(now, 1)
}

// hold lets one more refusal wait, until the function that it returns is called, unless too many wait.
func (a *addresses) hold(host string) (release func(), ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	from := a.of(host)
	if a.held >= maxHeld || from.held >= maxHeldEach {
		return nil, false
	}
	a.held++
	from.held++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.held--
		from.held--
	}, true
}

type peerKey struct{}

// peer is the connection that a request came on.
type peer struct {
	net.Conn
	addresses *addresses
	abandoned *rate.Limiter
}

// connected gives the requests of a connection their peer, as [http.Server.ConnContext].
func (a *addresses) connected(ctx context.Context, connection net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, &peer{connection, a, rate.NewLimiter(abandonRate, abandonBurst)})
}

// peerOf returns nil where the server does not know its connections.
func peerOf(ctx context.Context) *peer {
	on, _ := ctx.Value(peerKey{}).(*peer)
	return on
}

// abandon counts a request that was taken back, and cuts the connection if there are too many on it, or of its address.
func (p *peer) abandon() {
	now := p.addresses.now()
	p.addresses.mu.Lock()
	few := p.addresses.of(HostOf(p.RemoteAddr().String())).abandoned.AllowN(now, 1)
	p.addresses.mu.Unlock()
	if !p.abandoned.AllowN(now, 1) || !few {
		p.cut()
	}
}

// cut closes the connection at once, and puts its address on probation.
func (p *peer) cut() {
	host := HostOf(p.RemoteAddr().String())
	p.addresses.mu.Lock()
	p.addresses.of(host).cut = p.addresses.now()
	p.addresses.mu.Unlock()
	hangUp(p.Conn)
}

// abandoning cuts a connection of HTTP/2 on which more is taken back than by anybody who wants answers. What was taken
// back before its turn came costs nothing more.
func abandoning(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 || r.Context().Err() == nil {
			next.ServeHTTP(w, r)
		}
		if on := peerOf(r.Context()); on != nil && r.ProtoMajor >= 2 && r.Context().Err() != nil {
			on.abandon()
		}
	})
}

// HoldRefusal waits before a request is refused of which there were too many. It says whether there is still somebody to tell:
// of an address of which too many wait, the connection is cut.
func HoldRefusal(ctx context.Context) bool {
	on := peerOf(ctx)
	if on == nil {
		return true
	}
	release, ok := on.addresses.hold(HostOf(on.RemoteAddr().String()))
	if !ok {
		on.cut()
		return false
	}
	defer release()
	select {
	case <-time.After(refusalDelay):
		return true
	case <-ctx.Done():
		return false
	}
}
