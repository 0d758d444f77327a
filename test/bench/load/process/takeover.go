package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"g8s.host/gpu-scheduler/pkg/sandbox"
)

// shortLease is that of schedulers of which one takes over from the other. It is the same for all that are measured, since a standby
// waits for it to end before anything else.
var shortLease = []string{
	"-v=2", "--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=500ms",
}

// quiet is how long no binding is seen, at least, between the last one of a leader that has died and the first of the next, which leads
// seconds later. Those of the dead one may be seen for seconds after its end where the watch has fallen behind.
const quiet = time.Second

// Takeover measures how long after the death of the leader a standby binds its first pod, and how fast it goes on: so many pods come, and
// the leader is killed when a quarter of them is bound. The times are from its death on, and the rest of the result is the standby's.
func (l *Lab) Takeover(ctx context.Context, s Scheduler, pods int) (result Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var replicas [2]*sandbox.Process
	for i := range replicas {
		name := fmt.Sprintf("takeover-%d", i)
		replicas[i], err = l.sandbox.StartScheduler(ctx, sandbox.SchedulerOptions{Name: name, ConfigPath: s.Config, Args: shortLease})
		if err != nil {
			return Result{}, fmt.Errorf("starting %s: %w", s.Name, err)
		}
		defer func() { err = errors.Join(err, replicas[i].Stop()) }()
		if i == 0 { // which has to lead before the other asks for it
			if _, err := wait(ctx, replicas[i], 2*quiet); err != nil {
				return Result{}, err
			}
		}
	}
	seen, err := l.watchBindings(ctx)
	if err != nil {
		return Result{}, err
	}
	defer seen.stop()
	defer func() { err = errors.Join(err, l.deletePods(context.WithoutCancel(ctx))) }()
	var coming errgroup.Group
	coming.Go(func() error { return l.createPods(ctx, pods, 1) })
	result, err = l.succeed(ctx, replicas, seen, pods)
	if err := coming.Wait(); err != nil {
		return Result{}, fmt.Errorf("creating %d pods: %w", pods, err)
	}
	return result, err
}

// succeed kills the first of two schedulers when a quarter of the pods is bound, and follows the other until all are.
func (l *Lab) succeed(ctx context.Context, replicas [2]*sandbox.Process, seen *bindings, pods int) (Result, error) {
	for range pods / 4 {
		if _, _, err := seen.next(ctx, replicas[0].Done()); err != nil {
			return Result{}, err
		}
	}
	if err := replicas[0].Kill(); err != nil {
		return Result{}, fmt.Errorf("killing the leader: %w", err)
	}
	died := time.Now()
	for before := (silence{died}); seen.bound() < pods; {
		_, at, err := seen.next(ctx, replicas[1].Done())
		if err != nil {
			return Result{}, err
		}
		if !before.ends(at) {
			continue
		}
		rest := pods - seen.bound()
		result, err := l.workOff(ctx, replicas[1], seen, died, rest)
		result.FirstBinding = at.Sub(died)
		return result, err
	}
	return Result{}, errors.New("all pods were bound before the leader was killed: take more of them")
}

// silence is the time in which no binding is seen.
type silence struct{ since time.Time }

// ends reports whether a binding that is seen ends one that was long enough to be that between two leaders.
func (s *silence) ends(at time.Time) bool {
	long := at.Sub(s.since) >= quiet
	s.since = at
	return long
}
