package survival

import (
	"cmp"
	"math"
	"time"
)

// Never is longer than anything lasts.
const Never = time.Duration(math.MaxInt64)

// Distribution is the remaining run time, as far as it is known. The zero value is unknown.
type Distribution struct {
	// ran is the total run times of similar jobs that have run for at least elapsed, in order.
	ran            []time.Duration
	elapsed, limit time.Duration
}

// IsKnown reports whether an end is known at all.
func (d Distribution) IsKnown() bool { return len(d.ran) > 0 || d.limit > 0 }

// HasRecords reports whether it is based on other jobs, and not on its limit alone.
func (d Distribution) HasRecords() bool { return len(d.ran) > 0 }

// Quantile returns the maximum remaining run time with a probability, by the nearest rank; Never if it is unknown.
func (d Distribution) Quantile(p float64) time.Duration {
	total := Never
	if len(d.ran) > 0 {
		rank := int(math.Ceil(p*float64(len(d.ran)))) - 1
		total = d.ran[min(max(rank, 0), len(d.ran)-1)]
	}
	if d.limit > 0 {
		total = min(total, d.limit)
	}
	if total == Never {
		return Never
	}
	return max(total-d.elapsed, 0)
}

// sortsBefore is an order of classes.
func (c class) sortsBefore(other class) bool {
	return cmp.Or(cmp.Compare(c.owner.namespace, other.owner.namespace), cmp.Compare(c.owner.user, other.owner.user),
		cmp.Compare(c.pool, other.pool), cmp.Compare(c.size, other.size)) < 0
}
