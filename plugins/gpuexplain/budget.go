package gpuexplain

import (
	"sync"
	"time"
)

const (
	// costShare is the part of one core that explaining may use: 1/64. Including what is not counted it stays below 2 %.
	costShare = 64
	// costBurst is how much may be spent at once before that share applies.
	costBurst = 100 * time.Millisecond
)

// budget keeps the cost of explaining below a share of one core, however many pods fail on however many nodes. Time spent is a debt, which
// elapsed time pays off at that share; while the debt is at least a burst, nothing more is spent. The zero value is ready to use.
type budget struct {
	mu   sync.Mutex
	debt time.Duration
	paid time.Time
}

// canSpend reports whether something may be spent now.
func (b *budget) canSpend(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if passed := now.Sub(b.paid); passed > 0 {
		b.debt = max(b.debt-passed/costShare, 0)
		b.paid = now
	}
	return b.debt < costBurst
}

// recordCost adds to the debt.
func (b *budget) recordCost(cost time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.debt += max(cost, 0)
}
