package plugins

import (
	"errors"
	"sync"
	"time"

	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// errForeseen keeps all pods where they are that were to leave for another one.
var errForeseen = errors.New("no pod leaves for one whose binding would be refused")

// questions are asked once for each decision that pods leave for another one, and not for each of those that leave.
type questions struct {
	mu sync.Mutex
	of map[preemption.Candidate]*question
}

type question struct {
	once    sync.Once
	refused bool
}

// heldFor is how long an answer is kept: for longer than it takes to carry a decision out.
const heldFor = time.Minute

// ask returns the answer for a decision, which all that ask meanwhile wait for.
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
