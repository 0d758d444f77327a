package cycle

import (
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	fwk "k8s.io/kube-scheduler/framework"
)

const attemptKey fwk.StateKey = "Attempt"

// Attempts numbers the scheduling attempts of a process. The plugins share one: what is learned from pods is learned
// again after so many attempts, and a binding tells which one it came of, and what was known of pods by then, so that a
// replay learns when the scheduler did and decides in the same order. The zero value has counted none. It may be used by
// many goroutines.
type Attempts struct {
	last atomic.Int64
	// Seen is what of the changes of pods the attempts could know.
	Seen Revision
}

// number is that of one attempt. Clones share it.
type number int64

// Clone implements fwk.StateData.
func (n number) Clone() fwk.StateData { return n }

// Of returns the number of an attempt, from 1. Who asks first in an attempt has it counted.
func (a *Attempts) Of(cs fwk.CycleState) int64 {
	if n, err := Read[number](cs, attemptKey); err == nil {
		return int64(n)
	}
	n := a.last.Add(1)
	cs.Write(attemptKey, number(n))
	return n
}

// Set has the next attempt follow on one of a number.
func (a *Attempts) Set(last int64) { a.last.Store(last) }

// Revision is how far somebody is with what happens to pods: the highest resource version of those reached. The zero
// value has reached none. It may be used by many goroutines.
type Revision struct {
	mu      sync.Mutex
	version string
}

// Reach moves the revision on to the resource version of a pod. One that is passed already, or none at all, changes
// nothing.
func (r *Revision) Reach(version string) {
	// What is no version compares with none, not even with itself.
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if order, err := resourceversion.CompareResourceVersion(version, r.version); err != nil || order > 0 {
		r.version = version
	}
}

// Version returns the highest version reached, "" before the first.
func (r *Revision) Version() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.version
}
