package replace

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/types"
)

// A job that is disrupted over and over, such as one that its node evicts each time for the disk that it fills, is not to
// be started in a tight loop: after burst replacements at once, one follows each interval, and those between wait as
// Kubernetes has it.
const (
	burst    = 5
	interval = time.Minute
)

// pace bounds how often the pods of one place are replaced at once. A place is a member of a Job. The zero value is ready.
type pace struct {
	mu     sync.Mutex
	places map[place]*budget
	swept  time.Time
}

// budget is that of a place, and the answer to the last pod of it that was asked about: a pod is counted once, though it is
// looked at again after an error.
type budget struct {
	limiter *rate.Limiter
	last    types.UID
	allowed bool
}

type place struct {
	job   types.UID
	index string
}

// allow reports whether a pod of a place may be replaced at once now, and counts it then.
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

// sweep forgets, once an interval, the budgets that are as good as new ones.
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
