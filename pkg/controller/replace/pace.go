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

// replacementLimiter limits the immediate replacements of one member of a Job. The zero value is ready.
type replacementLimiter struct {
	mu      sync.Mutex
	budgets map[memberKey]*budget
	swept   time.Time
}

// budget is the budget of a member, with the answer for its last pod: a pod counts once, even if it is reconciled again after an error.
type budget struct {
	limiter *rate.Limiter
	last    types.UID
	allowed bool
}

type memberKey struct {
	job   types.UID
	index string
}

// allowReplacement reports whether a member's pod may be replaced at once now, and counts it if so.
func (p *replacementLimiter) allowReplacement(pod types.UID, at memberKey, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sweepBudgets(now)
	b := p.budgets[at]
	if b == nil {
		b = &budget{limiter: rate.NewLimiter(rate.Every(interval), burst)}
		p.budgets[at] = b
	}
	if b.last != pod {
		b.last, b.allowed = pod, b.limiter.AllowN(now, 1)
	}
	return b.allowed
}

// sweepBudgets removes fully replenished budgets, once per interval.
func (p *replacementLimiter) sweepBudgets(now time.Time) {
	if p.budgets == nil {
		p.budgets = map[memberKey]*budget{}
	}
	if now.Sub(p.swept) < interval {
		return
	}
	p.swept = now
	for at, b := range p.budgets {
		if b.limiter.TokensAt(now) >= burst {
			delete(p.budgets, at)
		}
	}
}
