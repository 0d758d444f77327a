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

// lock is the election's lock. It sees each write of the Lease before the election does.
type lock struct {
	resourcelock.Interface
	fence *Fence
	// takeover is how long others wait for a sign of the leader.
	takeover time.Duration
	// holder is who had the lease when it was read or written last. What is written next replaces that state.
	holder string
	// longest is how long a request may take at most.
	longest time.Duration
	// within is how long the next request may take, 0 for patience.
	within time.Duration
	// read is when the lease was read last, and seen what it was. silences is how often, since it was that first, there was
	// no answer for too long.
	read     time.Time
	seen     []byte
	silences int
}

// patience is how long a request may take on an API server that answers quickly, and how long none need be answered before
// those who stand by begin to wait again. It leaves a leader that has heard nothing for so long the time for another try
// before others take over.
func (l *lock) patience() time.Duration { return l.takeover * 2 / 3 }

// mostSilences is how often those who stand by begin to wait again for the same state of the lease. A leader that has not
// renewed it between so many silences is dead, or can write as little as if it were: on an API server that takes longer
// than patience for each answer there is such a silence before each, and nobody would ever take over.
const mostSilences = 2

var errNotOurs = errors.New("another process has the lease: it is not ours to release")

// Get reads the Lease. The election does so when its own renewal was refused.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	var record *resourcelock.LeaderElectionRecord
	var raw []byte
	err := l.timed(ctx, func(ctx context.Context) (err error) {
		record, raw, err = l.Interface.Get(ctx)
		return err //nolint:wrapcheck // the election reads its kind
	})
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
// that of a dead leader. After a silence of the API server the leader could not have changed it: then it is another one,
// but not forever.
func (l *lock) asSeen(raw []byte) []byte {
	now := l.fence.clock.Now()
	switch {
	case !bytes.Equal(raw, l.seen):
		l.seen, l.silences = slices.Clone(raw), 0
	case now.Sub(l.read) > l.patience() && l.silences < mostSilences:
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
	if err := l.timed(ctx, func(ctx context.Context) error { return write(ctx, *record) }); err != nil {
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

// timed bounds a request. An API server that is slow gets twice as long as its last answer took; who stands by, and so has
// nobody waiting for a request, finds out how slow it is by waiting twice as long after each that was not answered. A
// leader gives up early instead, to have the time for another try.
func (l *lock) timed(ctx context.Context, request func(context.Context) error) error {
	limit := max(l.within, l.patience())
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := l.fence.clock.Now()
	err := request(bounded)
	switch took := l.fence.clock.Since(began); {
	case err == nil:
		l.within = min(2*took, l.longest)
	case bounded.Err() != nil && ctx.Err() == nil && !l.leads():
		l.within = min(2*limit, l.longest)
	}
	return err
}

func (l *lock) leads() bool {
	_, leads := l.fence.Epoch()
	return leads
}

// release empties the lease. The election reads the lease first, but decides by what it remembers whether it leads: a
// leader that stood still, or whose last requests failed, would take the lease away from its successor.
func (l *lock) release(ctx context.Context, record *resourcelock.LeaderElectionRecord, write writeFunc) error {
	if l.holder != l.Identity() {
		return errNotOurs
	}
	return l.timed(ctx, func(ctx context.Context) error { return write(ctx, *record) })
}

// pause lets [Pause] go by. The election is told of its success only then, so that nothing is decided before. When the
// process is told to end in between there is still no error: only an election that succeeded releases its lease.
func (f *Fence) pause(ctx context.Context) {
	select {
	case <-f.clock.After(Pause):
	case <-ctx.Done():
	}
}
