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

// Limits for operations that cost the server more than the client: connections, each with a handshake; HTTP/2 streams that are cancelled before they
// are answered, hundreds of which fit in a packet (CVE-2023-44487); and requests that are refused because there were too many.
const (
	// connectRate and connectBurst limit new connections per address, which many callers may share.
	connectRate  = 200
	connectBurst = 1000
	// abandonRate and abandonBurst limit cancelled requests per connection. A browser cancels the requests of a page that the user leaves, and a
	// client that exits cancels all its open requests: at most [maxParallel].
	abandonRate  = 20
	abandonBurst = 2 * maxParallel
	// abandonFactor multiplies this limit for an address: net/http itself closes connections before all cancellations are seen.
	abandonFactor = 5
	// maxHeld limits the refusals that wait for refusalDelay, and maxHeldEach those of each address: a client that retries at once then asks no more
	// often than one that waits as told.
	maxHeld      = 2048
	maxHeldEach  = 256
	refusalDelay = time.Second
	// probation is how long an address may open only a few connections per second, after the server has cut one of its connections for one of these
	// reasons.
	probation     = 10 * time.Second
	probationRate = 5
	// maxAddresses is the number of remembered addresses, and idleAddress how long they are remembered.
	maxAddresses = 16384
	idleAddress  = 10 * time.Minute
)

// addresses stores what is known about callers by their address: before authentication, nothing else is known.
type addresses struct {
	now func() time.Time

	mu sync.Mutex
	// known contains an *address for each recently seen address.
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

func (a *addresses) lookupAddress(host string) *address {
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

// mayConnect reports whether an address may open another connection.
func (a *addresses) mayConnect(host string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	from, now := a.lookupAddress(host), a.now()
	if now.Sub(from.cut) < probation && !from.onProbation.AllowN(now, 1) {
		return false
	}
	return from.connects.AllowN(now, 1)
}

// holdRefusal lets another refusal wait until the returned function is called, unless too many wait already.
func (a *addresses) holdRefusal(host string) (release func(), ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	from := a.lookupAddress(host)
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

// peer is the connection of a request.
type peer struct {
	net.Conn
	addresses *addresses
	abandoned *rate.Limiter
}

// withPeer adds the peer to the context of a connection's requests, for [http.Server.ConnContext].
func (a *addresses) withPeer(ctx context.Context, connection net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, &peer{connection, a, rate.NewLimiter(abandonRate, abandonBurst)})
}

// peerFromContext returns nil if the server does not track its connections.
func peerFromContext(ctx context.Context) *peer {
	on, _ := ctx.Value(peerKey{}).(*peer)
	return on
}

// countAbandoned counts a cancelled request, and cuts the connection if there are too many on it or from its address.
func (p *peer) countAbandoned() {
	now := p.addresses.now()
	p.addresses.mu.Lock()
	few := p.addresses.lookupAddress(HostOf(p.RemoteAddr().String())).abandoned.AllowN(now, 1)
	p.addresses.mu.Unlock()
	if !p.abandoned.AllowN(now, 1) || !few {
		p.cutConnection()
	}
}

// cutConnection closes the connection at once, and puts its address on probation.
func (p *peer) cutConnection() {
	host := HostOf(p.RemoteAddr().String())
	p.addresses.mu.Lock()
	p.addresses.lookupAddress(host).cut = p.addresses.now()
	p.addresses.mu.Unlock()
	hangUp(p.Conn)
}

// limitAbandoned cuts an HTTP/2 connection with more cancelled requests than a legitimate client sends. A request cancelled before its turn costs
// nothing more.
func limitAbandoned(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor < 2 || r.Context().Err() == nil {
			next.ServeHTTP(w, r)
		}
		if on := peerFromContext(r.Context()); on != nil && r.ProtoMajor >= 2 && r.Context().Err() != nil {
			on.countAbandoned()
		}
	})
}

// DelayRefusal delays the refusal of an excess request. It returns false if there is no client left to answer: if too many refusals of an address
// wait, the connection is cut.
func DelayRefusal(ctx context.Context) bool {
	on := peerFromContext(ctx)
	if on == nil {
		return true
	}
	release, ok := on.addresses.holdRefusal(HostOf(on.RemoteAddr().String()))
	if !ok {
		on.cutConnection()
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
