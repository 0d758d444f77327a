package cycle

import (
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/util/resourceversion"
	fwk "k8s.io/kube-scheduler/framework"
)

const attemptKey fwk.StateKey = "Attempt"

// Attempts numbers the scheduling attempts of a process, shared by all plugins. Forecasts are updated after a number of attempts, and a binding
// records its attempt and the pod changes known by then, so that a replay updates when the scheduler did and decides in the same order. The zero
// value has counted none. It is safe for concurrent use.
type Attempts struct {
	last atomic.Int64
	// Seen is the last pod change that attempts could know.
	Seen Revision
}

// attemptNumber is that of one attempt. Clones share it.
type attemptNumber int64

// Clone implements fwk.StateData.
func (n attemptNumber) Clone() fwk.StateData { return n }

// AttemptNumber returns the number of an attempt, from 1. The first call in an attempt counts it.
func (a *Attempts) AttemptNumber(cs fwk.CycleState) int64 {
	if n, err := Read[attemptNumber](cs, attemptKey); err == nil {
		return int64(n)
	}
	n := a.last.Add(1)
	cs.Write(attemptKey, attemptNumber(n))
	return n
}

// SetLast sets the number of the previous attempt.
func (a *Attempts) SetLast(last int64) { a.last.Store(last) }

// Revision is the progress through pod changes: the highest resource version reached. The zero value has reached none. It is safe for concurrent
// use.
type Revision struct {
	mu      sync.Mutex
	version string
}

// AdvanceTo advances the revision to the resource version of a pod. A lower or empty version changes nothing.
func (r *Revision) AdvanceTo(version string) {
	// A string that is no version is not comparable, not even with itself.
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
