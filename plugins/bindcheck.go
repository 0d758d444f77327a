package plugins

import (
	"errors"
	"sync"
	"time"

	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// errWouldBeRefused keeps all victims of a preemption where they are.
var errWouldBeRefused = errors.New("no pod leaves for one whose binding would be refused")

// bindChecks cache one answer for each preemption decision, rather than for each victim.
type bindChecks struct {
	mu          sync.Mutex
	byCandidate map[preemption.Candidate]*bindCheck
}

type bindCheck struct {
	once    sync.Once
	refused bool
}

// bindCheckTTL is how long an answer is kept: longer than it takes to carry out a decision.
const bindCheckTTL = time.Minute

// checkOnce returns the answer for a decision. Concurrent callers wait for the same answer.
func (q *bindChecks) checkOnce(on preemption.Candidate, isRefused func() bool) bool {
	q.mu.Lock()
	one := q.byCandidate[on]
	if one == nil {
		if q.byCandidate == nil {
			q.byCandidate = map[preemption.Candidate]*bindCheck{}
		}
		one = &bindCheck{}
		q.byCandidate[on] = one
		time.AfterFunc(bindCheckTTL, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			delete(q.byCandidate, on)
		})
	}
	q.mu.Unlock()
	one.once.Do(func() { one.refused = isRefused() })
	return one.refused
}
