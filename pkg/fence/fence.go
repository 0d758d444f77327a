// Package fence makes one leader the only scheduler that can bind pods.
//
// client-go's leader election alone does not: a leader that stood still past its lease, stopped or starved, wakes up
// and goes on where it was, while another leads. Here every binding carries the epoch it was decided in, "<lease
// holder>/<lease transitions>", and manifests/policy lets the API server refuse those of another epoch than the Lease
// has. And a new leader waits before its first decision, until what its predecessor could still bind has been stored
// and seen. docs/failover.md tells the whole.
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

// errLedBefore ends a process that would lead again. What it decided in its first leadership must never be bound in
// a second one, and a process that starts afresh has decided nothing.
var errLedBefore = errors.New("this process has led before and lost the lease: it must end, a new one may lead")

// Fence knows the epoch in which this process leads. It is safe for concurrent use.
type Fence struct {
	clock clock.Clock
	lost  func()
	epoch atomic.Pointer[string]
}

// New returns a fence of a process that does not lead. clock measures [Pause]. lost is called, once, when this process
// has led and finds that it leads no more. It should stop deciding at once: the election itself would try for
// renewDeadline to get the lease back, and what is decided meanwhile is refused.
func New(clock clock.Clock, lost func()) *Fence {
	return &Fence{clock: clock, lost: sync.OnceFunc(lost)}
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

// Protect makes an election tell the fence of its outcome, wait [Pause] before its winner starts, and release the
// lease when the process is told to end. Call it before the election starts. It is an error if the lease could run
// out during the pause.
//
// takeover is how long those who stand by wait for a sign of the leader, in whole seconds; 0 and all that is longer than the
// election's LeaseDuration are as long as that. It may be much
// shorter than RenewDeadline, for which a leader tries to renew: that two believe to lead does no harm here, as the API
// server lets one bind. So a crash costs as little as takeover, and an API server that does not answer for longer than that
// still deposes nobody: time in which those who stand by get no answer does not count either, up to two times. On an API
// server that takes longer than two thirds of takeover for an answer, and up to half of RenewDeadline, which is also how
// long kube-scheduler's client waits, taking over takes some answers more.
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
	mine.longest = max(mine.patience(), election.RenewDeadline/2)
	election.Lock = mine
	election.ReleaseOnCancel = true
	return nil
}

// epochOf names the leadership that a record stands for. Each takeover increments the transitions, and the identity
// is new with each process, so no epoch comes twice, even if the Lease is deleted and its count starts again.
func epochOf(record *resourcelock.LeaderElectionRecord) string {
	return record.HolderIdentity + "/" + strconv.Itoa(record.LeaderTransitions)
}
