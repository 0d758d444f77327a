package fence

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"g8s.host/gpu-scheduler/test/wrapped"
)

// memoryLock is one contender's view of a lease in memory.
type memoryLock struct {
	resourcelock.Interface
	identity string
	lease    *lease
}

type lease struct {
	mu     sync.Mutex
	record *resourcelock.LeaderElectionRecord
	err    error // what the next write returns
	writes []string
	silent func(ctx context.Context) error // what happens to each request, nil for nothing
}

// reach is a request on its way.
func (l *lease) reach(ctx context.Context) error {
	l.mu.Lock()
	silent := l.silent
	l.mu.Unlock()
	if silent != nil {
		return silent(ctx)
	}
	return nil
}

func (l *memoryLock) Identity() string   { return l.identity }
func (l *memoryLock) Describe() string   { return "memory" }
func (l *memoryLock) RecordEvent(string) {}

func (l *memoryLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if err := l.lease.reach(ctx); err != nil {
		return nil, nil, err
	}
	l.lease.mu.Lock()
	defer l.lease.mu.Unlock()
	if l.lease.record == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "memory")
	}
	record := *l.lease.record
	return &record, []byte(epochOf(&record) + record.RenewTime.String()), nil
}

func (l *memoryLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

func (l *memoryLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.lease.reach(ctx); err != nil {
		return err
	}
	l.lease.mu.Lock()
	defer l.lease.mu.Unlock()
	if err := l.lease.err; err != nil {
		l.lease.err = nil
		return err
	}
	l.lease.record = &record
	l.lease.writes = append(l.lease.writes, epochOf(&record))
	return nil
}

func record(holder string, transitions int) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: holder, LeaderTransitions: transitions}
}

func protect(t *testing.T, f *Fence, inner resourcelock.Interface) resourcelock.Interface {
	t.Helper()
	election := leaderelection.LeaderElectionConfig{Lock: inner, LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second}
	if err := f.Protect(&election, 0); err != nil {
		t.Fatal(err)
	}
	return election.Lock
}

func TestTheFirstWriteOfTheHolderWaitsAndLaterOnesDoNot(t *testing.T) {
	writes := map[string]func(resourcelock.Interface, context.Context, resourcelock.LeaderElectionRecord) error{
		"create": resourcelock.Interface.Create,
		"update": resourcelock.Interface.Update,
	}
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			fake := clocktesting.NewFakeClock(time.Unix(0, 0))
			f := New(fake, func() {})
			l := protect(t, f, &memoryLock{identity: "a", lease: &lease{}})
			if epoch, ok := f.Epoch(); ok {
				t.Fatalf("got epoch %q before the election", epoch)
			}
			done := make(chan error)
			go func() { done <- write(l, t.Context(), record("a", 7)) }()
			for !fake.HasWaiters() {
				time.Sleep(time.Millisecond)
			}
			fake.Step(Pause - time.Nanosecond)
			select {
			case err := <-done:
				t.Fatalf("the write returned before the pause was over, error %v", err)
			case <-time.After(10 * time.Millisecond):
			}
			fake.Step(time.Nanosecond)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if epoch, ok := f.Epoch(); !ok || epoch != "a/7" {
				t.Errorf("got epoch %q, %t, want a/7", epoch, ok)
			}
			if err := l.Update(t.Context(), record("a", 7)); err != nil || fake.HasWaiters() {
				t.Errorf("the renewal got error %v or waits again", err)
			}
		})
	}
}

func TestAWriteThatFailsMakesNoLeader(t *testing.T) {
	broken := errors.New("broken")
	f := New(clocktesting.NewFakeClock(time.Unix(0, 0)), func() {})
	l := protect(t, f, &memoryLock{identity: "a", lease: &lease{err: broken}})
	if err := l.Update(t.Context(), record("a", 1)); !errors.Is(err, broken) {
		t.Errorf("got error %v, want %v", err, broken)
	}
	if epoch, ok := f.Epoch(); ok {
		t.Errorf("got epoch %q", epoch)
	}
}

func TestAProcessLeadsOnce(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel() // ends the pause
	tests := map[string]resourcelock.LeaderElectionRecord{
		"it takes the lease that another had in between": record("a", 3),
		"it creates the lease that somebody deleted":     record("a", 0),
	}
	for name, again := range tests {
		t.Run(name, func(t *testing.T) {
			lease := &lease{}
			lost := 0
			f := New(clocktesting.NewFakeClock(time.Unix(0, 0)), func() { lost++ })
			l := protect(t, f, &memoryLock{identity: "a", lease: lease})
			if err := l.Update(cancelled, record("a", 1)); err != nil {
				t.Fatal(err)
			}
			if err := l.Update(t.Context(), again); !errors.Is(err, errLedBefore) {
				t.Errorf("got error %v, want %v", err, errLedBefore)
			}
			if err := l.Update(t.Context(), record("", 1)); err != nil {
				t.Errorf("releasing: %v", err)
			}
			if diff := cmp.Diff([]string{"a/1", "/1"}, lease.writes); diff != "" {
				t.Errorf("writes of the lease (-want +got):\n%s", diff)
			}
			if lost != 1 {
				t.Errorf("the process was told %d times that it leads no more, want 1", lost)
			}
			if epoch, _ := f.Epoch(); epoch != "a/1" {
				t.Errorf("got epoch %q, want the one that was lost", epoch)
			}
		})
	}
}

func TestAProcessLearnsThatItLeadsNoMore(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel() // ends the pause
	tests := map[string]struct {
		leads bool
		found resourcelock.LeaderElectionRecord
		want  int
	}{
		"it stands by":                         {found: record("b", 2)},
		"it leads":                             {leads: true, found: record("a", 1)},
		"another has taken the lease":          {leads: true, found: record("b", 2), want: 1},
		"another has taken it and released it": {leads: true, found: record("", 2), want: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			lease, lost := &lease{}, 0
			l := protect(t, New(clocktesting.NewFakeClock(time.Unix(0, 0)), func() { lost++ }), &memoryLock{identity: "a", lease: lease})
			if tc.leads {
				if err := l.Update(cancelled, record("a", 1)); err != nil {
					t.Fatal(err)
				}
			}
			lease.record = &tc.found
			for range 2 {
				if _, _, err := l.Get(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if lost != tc.want {
				t.Errorf("the process was told %d times that it leads no more, want %d", lost, tc.want)
			}
		})
	}
}

// TestALeaseOfAnotherIsNotReleased is what client-go's election does when its last renewal and read have failed: it
// believes that it leads, reads the lease and empties it.
func TestALeaseOfAnotherIsNotReleased(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel() // ends the pause
	successor := record("b", 2)
	lease := &lease{}
	l := protect(t, New(clocktesting.NewFakeClock(time.Unix(0, 0)), func() {}), &memoryLock{identity: "a", lease: lease})
	if err := l.Update(cancelled, record("a", 1)); err != nil {
		t.Fatal(err)
	}
	lease.record = &successor
	if _, _, err := l.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Update(t.Context(), record("", 2)); !errors.Is(err, errNotOurs) {
		t.Errorf("releasing: got error %v, want %v", err, errNotOurs)
	}
	if diff := cmp.Diff([]string{"a/1"}, lease.writes); diff != "" {
		t.Errorf("writes of the lease (-want +got):\n%s", diff)
	}
}

func TestProtectRefusesTimesThatCannotHold(t *testing.T) {
	tests := map[string]struct{ lease, renew, takeover time.Duration }{
		"the pause outlasts the renewal":            {3 * time.Second, Pause, 0},
		"the pause outlasts the patience of others": {15 * time.Second, 10 * time.Second, Pause},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			election := leaderelection.LeaderElectionConfig{Lock: &memoryLock{}, LeaseDuration: tc.lease, RenewDeadline: tc.renew}
			if err := New(clock.RealClock{}, func() {}).Protect(&election, tc.takeover); err == nil {
				t.Error("got no error")
			}
		})
	}
}

// contend runs client-go's elector until ctx ends, and reports when it starts to lead.
func contend(ctx context.Context, t *testing.T, lease *lease, identity string) (f *Fence, started, ended chan struct{}) {
	t.Helper()
	return contendWithin(ctx, t, lease, identity, classic)
}

// retry is how often the lease is renewed.
const retry = 200 * time.Millisecond

// times are those of an election.
type times struct{ lease, renew, takeover time.Duration }

var (
	classic = times{3 * time.Second, 2 * time.Second, 0}
	longer  = times{4 * time.Second, 3 * time.Second, 0}
	shipped = times{15 * time.Second, 10 * time.Second, 3 * time.Second} // a test compares
	stock   = times{15 * time.Second, 10 * time.Second, 0}
)

func contendWithin(ctx context.Context, t *testing.T, lease *lease, identity string, in times) (f *Fence, started, ended chan struct{}) {
	t.Helper()
	f, started, ended = New(clock.RealClock{}, func() {}), make(chan struct{}), make(chan struct{})
	election := leaderelection.LeaderElectionConfig{
		Lock:          &memoryLock{identity: identity, lease: lease},
		LeaseDuration: in.lease, RenewDeadline: in.renew, RetryPeriod: retry,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(started) },
			OnStoppedLeading: func() { close(ended) },
		},
	}
	if err := f.Protect(&election, in.takeover); err != nil {
		t.Fatal(err)
	}
	elector, err := leaderelection.NewLeaderElector(election)
	if err != nil {
		t.Fatal(err)
	}
	go elector.Run(ctx)
	return f, started, ended
}

// TestElectionsHandOver runs the real elector in synctest's time: the first leader is told to end, the second takes
// over without waiting for the lease to run out, and nothing starts before its pause is over.
func TestElectionsHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := &lease{}
		began := time.Now()
		first, stop := context.WithCancel(t.Context())
		a, started, ended := contend(first, t, lease, "a")
		<-started
		if waited := time.Since(began); waited != Pause {
			t.Errorf("the first leader started after %s, want %s", waited, Pause)
		}
		second, stopSecond := context.WithCancel(t.Context())
		b, startedB, endedB := contend(second, t, lease, "b")
		time.Sleep(10 * time.Second)
		if _, ok := b.Epoch(); ok {
			t.Fatal("two lead")
		}
		stop()
		<-ended
		released := time.Now()
		<-startedB
		if waited := time.Since(released); waited < Pause || waited > Pause+time.Second {
			t.Errorf("the second leader started %s after the release, want a little more than %s", waited, Pause)
		}
		epochA, _ := a.Epoch()
		epochB, _ := b.Epoch()
		if diff := cmp.Diff([]string{"a/0", "b/1"}, []string{epochA, epochB}); diff != "" {
			t.Errorf("epochs (-want +got):\n%s", diff)
		}
		stopSecond()
		<-endedB
	})
}

// TestAProcessThatIsToldToEndDuringThePauseReleasesTheLease keeps the next leader from waiting for a dead one.
func TestAProcessThatIsToldToEndDuringThePauseReleasesTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lease := &lease{}
		ctx, stop := context.WithCancel(t.Context())
		_, _, ended := contend(ctx, t, lease, "a")
		time.Sleep(Pause / 2)
		stop()
		<-ended
		if holder := lease.record.HolderIdentity; holder != "" {
			t.Errorf("%s holds the lease still", holder)
		}
	})
}

func TestTheLockLeavesNothingOut(t *testing.T) {
	wrapped.Check[lock, resourcelock.Interface](t, wrapped.Left{"it says something of the lock, and changes nothing": {"Identity", "Describe", "RecordEvent"}})
}
