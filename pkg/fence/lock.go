package fence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock is the election's lock. It handles each write of the Lease before the election does.
type lock struct {
	resourcelock.Interface
	fence *Fence
	// takeover is how long standby processes wait for a sign of the leader.
	takeover time.Duration
	// holder is the holder of the lease when it was last read or written. The next write replaces that state.
	holder string
	// maxTimeout is the maximum duration of a request.
	maxTimeout time.Duration
	// nextTimeout is the timeout of the next request, 0 for requestTimeout.
	nextTimeout time.Duration
	// read is when the lease was last read, and seen its content. silences is how often, since that content first appeared, there was no
	// response for too long.
	read     time.Time
	seen     []byte
	silences int
}

// requestTimeout is the timeout of a request to an API server that responds quickly, and how long a silence may last before standby processes restart
// their wait. It leaves a leader without a response enough time for another try before a standby takes over.
func (l *lock) requestTimeout() time.Duration { return l.takeover * 2 / 3 }

// maxSilences is how often standby processes restart their wait for the same state of the lease. A leader that has not renewed it between so
// many silences is dead, or equally unable to write: on an API server that takes longer than requestTimeout for each response there is such a silence
// before each, and no process would ever take over.
const maxSilences = 2

var errNotOurs = errors.New("another process has the lease: it is not ours to release")

// Get reads the Lease. The election does so when its own renewal was refused.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	var record *resourcelock.LeaderElectionRecord
	var raw []byte
	err := l.boundRequest(ctx, func(ctx context.Context) (err error) {
		record, raw, err = l.Interface.Get(ctx)
		return err //nolint:wrapcheck // the election reads its kind
	})
	if err == nil {
		l.holder = record.HolderIdentity
		raw = l.withSilences(raw)
	}
	if _, led := l.fence.Epoch(); led && err == nil && record.HolderIdentity != l.Identity() {
		l.fence.onLost()
	}
	return record, raw, err
}

// withSilences returns a record for the election. An election treats a record that has not changed for too long as that of a dead leader. During a
// silence of the API server the leader could not have changed it, so afterwards it counts as a new record, but not indefinitely.
func (l *lock) withSilences(raw []byte) []byte {
	now := l.fence.clock.Now()
	switch {
	case !bytes.Equal(raw, l.seen):
		l.seen, l.silences = slices.Clone(raw), 0
	case now.Sub(l.read) > l.requestTimeout() && l.silences < maxSilences:
		l.silences++
	}
	l.read = now
	return fmt.Appendf(slices.Clone(raw), " silences: %d", l.silences)
}

// Create writes a new Lease.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.writeRecord(ctx, &record, l.Interface.Create)
}

// Update takes, renews or releases the Lease.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.writeRecord(ctx, &record, l.Interface.Update)
}

type writeFunc func(context.Context, resourcelock.LeaderElectionRecord) error

func (l *lock) writeRecord(ctx context.Context, record *resourcelock.LeaderElectionRecord, write writeFunc) error {
	if record.HolderIdentity != l.Identity() {
		return l.releaseLease(ctx, record, write)
	}
	epoch := epochOf(record)
	held, leads := l.fence.Epoch()
	if leads && held != epoch {
		l.fence.onLost()
		return fmt.Errorf("taking the lease as %s after %s: %w", epoch, held, errLedBefore)
	}
	// Standby processes use the duration in the record.
	record.LeaseDurationSeconds = min(record.LeaseDurationSeconds, int(l.takeover/time.Second))
	if err := l.boundRequest(ctx, func(ctx context.Context) error { return write(ctx, *record) }); err != nil {
		return err
	}
	l.holder = record.HolderIdentity
	if leads {
		return nil
	}
	l.fence.epoch.Store(&epoch)
	l.fence.waitPause(ctx)
	return nil
}

// boundRequest bounds a request. A slow API server gets twice as long as its last response took. A standby, which has no one waiting for a request,
// measures how slow it is by doubling the timeout after each request without a response. A leader gives up early instead, to have time for
// another try.
func (l *lock) boundRequest(ctx context.Context, request func(context.Context) error) error {
	limit := max(l.nextTimeout, l.requestTimeout())
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := l.fence.clock.Now()
	err := request(bounded)
	switch took := l.fence.clock.Since(began); {
	case err == nil:
		l.nextTimeout = min(2*took, l.maxTimeout)
	case bounded.Err() != nil && ctx.Err() == nil && !l.isLeading():
		l.nextTimeout = min(2*limit, l.maxTimeout)
	}
	return err
}

func (l *lock) isLeading() bool {
	_, leads := l.fence.Epoch()
	return leads
}

// releaseLease releases the lease. The election reads the lease first, but decides by its own memory whether it leads: a leader that was stopped, or
// whose last requests failed, would take the lease away from its successor.
func (l *lock) releaseLease(ctx context.Context, record *resourcelock.LeaderElectionRecord, write writeFunc) error {
	if l.holder != l.Identity() {
		return errNotOurs
	}
	return l.boundRequest(ctx, func(ctx context.Context) error { return write(ctx, *record) })
}

// waitPause waits for [Pause]. The election learns of its success only after that, so nothing is decided before. If the process is told to end in
// between, there is still no error: only a successful election releases its lease.
func (f *Fence) waitPause(ctx context.Context) {
	select {
	case <-f.clock.After(Pause):
	case <-ctx.Done():
	}
}
