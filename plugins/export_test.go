package plugins

import (
	"time"

	"k8s.io/kubernetes/pkg/scheduler"
)

// What tests reach that have a whole scheduler, and no clock to wait for.
var (
	Release      = release
	Tell         = tell
	FirstOfGangs = firstOfGangs
)

// ManyNodes is manyNodes.
const ManyNodes = manyNodes

// TakeTurns has the namespaces of a scheduler take turns by a clock of the test.
func TakeTurns(sched *scheduler.Scheduler, now func() time.Time) nextEntity {
	t := turnsOf(sched)
	t.now = now
	return inTurns(t, sched.NextEntity, func(next nextEntity) nextEntity { return next })
}
