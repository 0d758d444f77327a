package recovery

import (
	"time"

	"g8s.host/gpu-scheduler/pkg/nodestate"
)

// Record is the failure history in a node's annotation.
type Record = nodestate.Record

// failedAgain is the record after one more failure.
func failedAgain(r Record, at time.Time, condition string, forget time.Duration) Record {
	out := Record{Failures: 1, Last: at, Condition: condition, Held: r.Held}
	if at.Sub(r.Last) <= forget {
		out.Failures = min(r.Failures+1, nodestate.MaxFailures)
	}
	return out
}

// backOff returns how long a node must be healthy before it gets new pods: it doubles with each failure, within bounds.
func backOff(r Record, first, most time.Duration) time.Duration {
	out := first
	for range r.Failures - 1 {
		if out *= 2; out >= most {
			return most
		}
	}
	return min(out, most)
}
