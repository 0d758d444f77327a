package plugins

import (
	"errors"
	"sync"
	"time"

	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// errForeseen keeps all victims of a preemption where they are.
var errForeseen = errors.New("no pod leaves for one whose binding would be refused")

// questions cache one answer for each preemption decision, rather than for each victim.
type questions struct {
	mu sync.Mutex
	of map[preemption.Candidate]*question
}

type question struct {
	once    sync.Once
	refused bool
}

// heldFor is how long an answer is kept: longer than it takes to carry out a decision.
const heldFor = time.Minute

// ask returns the answer for a decision. Concurrent callers wait for the same answer.
func (q *questions) ask(on preemption.Candidate, isRefused func() bool) bool {
	q.mu.Lock()
	one := q.of[on]
	if one == nil {
		if q.of == nil {
			q.of = map[preemption.Candidate]*question{}
		}
		one = &question{}
		q.of[on] = one
		time.AfterFunc(heldFor, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			delete(q.of, on)
		})
	}
	q.mu.Unlock()
	one.once.Do(func() { one.refused = isRefused() })
	return one.refused
}
