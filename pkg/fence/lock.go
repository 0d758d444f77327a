package fence

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock is the election's lock. It sees each write of the Lease before the election does.
type lock struct {
	resourcelock.Interface
	fence *Fence
	// holder is who had the lease when it was read or written last. What is written next replaces that state.
	holder string
}

var errNotOurs = errors.New("another process has the lease: it is not ours to release")

// Get reads the Lease. The election does so when its own renewal was refused.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil {
		l.holder = record.HolderIdentity
	}
	if _, led := l.fence.Epoch(); led && err == nil && record.HolderIdentity != l.Identity() {
		l.fence.lost()
	}
	return record, raw, err
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
	if err := write(ctx, *record); err != nil {
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

// release empties the lease. The election reads the lease first, but decides by what it remembers whether it leads: a
// leader that stood still, or whose last requests failed, would take the lease away from its successor.
func (l *lock) release(ctx context.Context, record *resourcelock.LeaderElectionRecord, write writeFunc) error {
	if l.holder != l.Identity() {
		return errNotOurs
	}
	return write(ctx, *record)
}

// pause lets [Pause] go by. The election is told of its success only then, so that nothing is decided before. When the
// process is told to end in between there is still no error: only an election that succeeded releases its lease.
func (f *Fence) pause(ctx context.Context) {
	select {
	case <-f.clock.After(Pause):
	case <-ctx.Done():
	}
}
