// Package attempt numbers the scheduling attempts of a process. The plugins share one counter: what is learned from pods
// is learned anew after so many attempts, and a binding tells which one it came of, and what was known of pods by then,
// so that a replay learns when the scheduler did and decides in the same order.
package attempt

import (
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cyclestate"
)

const key fwk.StateKey = "Attempt"

// Counter counts attempts. The zero value has counted none. It may be used by many goroutines.
type Counter struct {
	last atomic.Int64

	mu   sync.Mutex
	seen string
}

// number is that of one attempt. Clones share it.
type number int64

// Clone implements fwk.StateData.
func (n number) Clone() fwk.StateData { return n }

// Of returns the number of an attempt, from 1. Who asks first in an attempt has it counted.
func (c *Counter) Of(cs fwk.CycleState) int64 {
	if n, err := cyclestate.Read[number](cs, key); err == nil {
		return int64(n)
	}
	n := c.last.Add(1)
	cs.Write(key, number(n))
	return n
}

// Set has the next attempt follow on one of a number.
func (c *Counter) Set(last int64) { c.last.Store(last) }

// Seen returns the highest of some resource versions of pods and of those that it was told of before; "" where there is
// none. What one attempt has seen the next ones have, too.
func (c *Counter) Seen(versions ...string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, version := range versions {
		// What is no version compares with none, not even with itself.
		if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
			continue
		}
		if order, err := resourceversion.CompareResourceVersion(version, c.seen); err != nil || order > 0 {
			c.seen = version
		}
	}
	return c.seen
}
