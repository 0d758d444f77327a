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
	// Seen is what of the changes of pods the attempts could know.
	Seen Horizon
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

// Horizon is how far somebody is with what happens to pods: the highest resource version of those reached. The zero
// value has reached none. It may be used by many goroutines.
type Horizon struct {
	mu      sync.Mutex
	version string
}

// Reach moves the horizon on to the resource version of a pod. One that is passed already, or none at all, changes
// nothing.
func (h *Horizon) Reach(version string) {
	// What is no version compares with none, not even with itself.
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if order, err := resourceversion.CompareResourceVersion(version, h.version); err != nil || order > 0 {
		h.version = version
	}
}

// Version returns the highest version reached, "" before the first.
func (h *Horizon) Version() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.version
}
