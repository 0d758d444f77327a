// Package fence ensures that only one leader can bind pods.
//
// client-go's leader election alone does not: a leader that was stopped or starved beyond its lease resumes where it was, while another leads.
// Here every binding carries the epoch it was decided in, "<lease holder>/<lease transitions>", and manifests/policy makes the API server refuse
// those of another epoch than the Lease has. In addition a new leader waits before its first decision, until what its predecessor could still
// bind has been stored and seen. docs/failover.md has the details.
package fence

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
)

// Pause is how long a new leader waits between taking the lease and its first decision. It covers two delays, each
// a few milliseconds: until every API server has seen the new holder, and bindings of the old one that were admitted
// before that are stored; and until our informers have seen those bindings.
const Pause = time.Second

// errLedBefore ends a process that would lead again. Decisions of its first leadership must never be bound in a second one, and a new process
// has made no decisions.
var errLedBefore = errors.New("this process has led before and lost the lease: it must end, a new one may lead")

// Fence knows the epoch in which this process leads. It is safe for concurrent use.
type Fence struct {
	clock  clock.Clock
	onLost func()
	epoch  atomic.Pointer[string]
}

// New returns a fence of a process that does not lead. clock measures [Pause]. lost is called, once, when this process has led and finds that it
// no longer leads. It should stop deciding at once: the election itself would try for renewDeadline to get the lease back, and decisions made in
// the meantime are refused.
func New(clock clock.Clock, lost func()) *Fence {
	return &Fence{clock: clock, onLost: sync.OnceFunc(lost)}
}

// Epoch returns the epoch that bindings carry. ok is false as long as this process has not become the leader, which
// is forever where leader election is off. Once set the epoch stays, also when the lease is lost: then it is the
// epoch that the API server refuses.
func (f *Fence) Epoch() (epoch string, ok bool) {
	if held := f.epoch.Load(); held != nil {
		return *held, true
	}
	return "", false
}

// Protect connects an election to the fence: the winner waits [Pause] before it starts, and the lease is released when the process is told to
// end. Call it before the election starts. It is an error if the lease could expire during the pause.
//
// takeover is how long standby processes wait for a sign of the leader, in whole seconds; 0 and values above the election's LeaseDuration stand
// for LeaseDuration. It may be much shorter than RenewDeadline, for which a leader tries to renew: two processes that believe to lead do no harm
// here, as the API server lets only one bind. So a crash costs as little as takeover, and an API server that does not respond for longer than
// that still deposes no leader: time in which standby processes get no response does not count either, up to two times. On an API server that
// takes longer than two thirds of takeover for a response, and up to half of RenewDeadline, which is also the timeout of kube-scheduler's
// client, taking over takes some responses more.
func (f *Fence) Protect(election *leaderelection.LeaderElectionConfig, takeover time.Duration) error {
	if takeover == 0 || takeover > election.LeaseDuration {
		takeover = election.LeaseDuration
	}
	for name, duration := range map[string]time.Duration{"renewDeadline": election.RenewDeadline, "the time after which another takes over": takeover} {
		if duration <= Pause {
			return fmt.Errorf("protecting the leader election: %s is %s, want more than the %s that a new leader waits", name, duration, Pause)
		}
	}
	mine := &lock{Interface: election.Lock, fence: f, takeover: takeover}
	mine.maxTimeout = max(mine.requestTimeout(), election.RenewDeadline/2)
	election.Lock = mine
	election.ReleaseOnCancel = true
	return nil
}

// epochOf returns the epoch of a record. Each takeover increments the transitions, and each process has a new identity, so no epoch is repeated,
// even if the Lease is deleted and its count starts over.
func epochOf(record *resourcelock.LeaderElectionRecord) string {
	return record.HolderIdentity + "/" + strconv.Itoa(record.LeaderTransitions)
}
