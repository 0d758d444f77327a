package fence

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock is the election's lock. It sees each write of the Lease before the election does.
type lock struct {
	resourcelock.Interface
	fence *Fence
	// takeover is how long others wait for a sign of the leader.
	takeover time.Duration
	// holder is who had the lease when it was read or written last. What is written next replaces that state.
	holder string
	// read is when the lease was read last, and silences is how often there was no answer for too long before that.
	read     time.Time
	silences int
}

// patience is how long a request may take, and how long none need be answered before those who stand by begin to wait anew.
// It leaves a leader that has heard nothing for so long the time for another try before others take over.
func (l *lock) patience() time.Duration { return l.takeover * 2 / 3 }

var errNotOurs = errors.New("another process has the lease: it is not ours to release")

// Get reads the Lease. The election does so when its own renewal was refused.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, l.patience())
	defer cancel()
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.holder = record.HolderIdentity
		raw = l.asSeen(raw)
	}
	if _, led := l.fence.Epoch(); led && err == nil && record.HolderIdentity != l.Identity() {
		l.fence.lost()
	}
	return record, raw, err
}

// asSeen returns a record as the election is to see it. An election takes a record that has not changed for too long for
// that of a dead leader. After a silence of the API server the leader could not have changed it: then it is another one.
func (l *lock) asSeen(raw []byte) []byte {
	now := l.fence.clock.Now()
	if !l.read.IsZero() && now.Sub(l.read) > l.patience() {
		l.silences++
	}
	l.read = now
	return fmt.Appendf(slices.Clone(raw), " silences: %d", l.silences)
}

// Create writes a new Lease.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, &record, l.Interface.Create)
}

// Update takes, renews or releases the Lease.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, &record, l.Interface.Update)
}

type writeFunc func(context.Context, resourcelock.LeaderElectionRecord) error

func (l *lock) write(ctx context.Context, record *resourcelock.LeaderElectionRecord, write writeFunc) error {
	if record.HolderIdentity != l.Identity() {
		return l.release(ctx, record, write)
	}
	epoch := epochOf(record)
	held, leads := l.fence.Epoch()
	if leads && held != epoch {
		l.fence.lost()
		return fmt.Errorf("taking the lease as %s after %s: %w", epoch, held, errLedBefore)
	}
	// Those who stand by go by what the record says.
	record.LeaseDurationSeconds = min(record.LeaseDurationSeconds, int(l.takeover/time.Second))
	if err := l.within(ctx, record, write); err != nil {
		return err
	}
	l.holder = record.HolderIdentity
	if leads {
		return nil
	}
	l.fence.epoch.Store(&epoch)
	l.fence.pause(ctx)
	return nil
}

// within bounds a write, so that there is time for another one.
func (l *lock) within(ctx context.Context, record *resourcelock.LeaderElectionRecord, write writeFunc) error {
	ctx, cancel := context.WithTimeout(ctx, l.patience())
	defer cancel()
	return write(ctx, *record)
}

// release empties the lease. The election reads the lease first, but decides by what it remembers whether it leads: a
// leader that stood still, or whose last requests failed, would take the lease away from its successor.
func (l *lock) release(ctx context.Context, record *resourcelock.LeaderElectionRecord, write writeFunc) error {
	if l.holder != l.Identity() {
		return errNotOurs
	}
	return l.within(ctx, record, write)
}

// pause lets [Pause] go by. The election is told of its success only then, so that nothing is decided before. When the
// process is told to end in between there is still no error: only an election that succeeded releases its lease.
func (f *Fence) pause(ctx context.Context) {
	select {
	case <-f.clock.After(Pause):
	case <-ctx.Done():
	}
}
