package replace

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// A job that is disrupted repeatedly, such as one that its node always evicts for filling the disk, must not restart in a tight loop: after burst
// immediate replacements, one follows per interval, and those between wait as in Kubernetes.
const (
	burst    = 5
	interval = time.Minute
)

// pace limits the immediate replacements of one member of a Job. The zero value is ready.
type pace struct {
	mu     sync.Mutex
	places map[place]*budget
	swept  time.Time
}

// budget is the budget of a member, with the answer for its last pod: a pod counts once, even if it is reconciled again after an error.
type budget struct {
	limiter *rate.Limiter
	last    types.UID
	allowed bool
}

type place struct {
	job   types.UID
	index string
}

// allow reports whether a member's pod may be replaced at once now, and counts it if so.
func (p *pace) allow(pod types.UID, at place, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweep(now)
	b := p.places[at]
	if b == nil {
		b = &budget{limiter: rate.NewLimiter(rate.Every(interval), burst)}
		p.places[at] = b
	}
	if b.last != pod {
		b.last, b.allowed = pod, b.limiter.AllowN(now, 1)
	}
	return b.allowed
}

// sweep removes fully replenished budgets, once per interval.
func (p *pace) sweep(now time.Time) {
	if p.places == nil {
		p.places = map[place]*budget{}
	}
	if now.Sub(p.swept) < interval {
		return
	}
	p.swept = now
	for at, b := range p.places {
		if b.limiter.TokensAt(now) >= burst {
			delete(p.places, at)
		}
	}
}
