package joblogs

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

const (
	// retryFirst and retryMost are the times between two attempts to read a log, which double.
	retryFirst = time.Second
	retryMost  = 16 * time.Second
	// settle is how long the log of a container that has ended may go on until it is read once more, to its end.
	settle = 2 * time.Second
	// lastAttempts is how often the log of a container that has ended is tried: nothing can be gained by waiting.
	lastAttempts = 3
)

// follower reads the logs of a job that goes on.
type follower struct {
	*reader
	job   inventory.Job
	seen  bool // the job was there
	first bool // the first state is still to come
	// runs are those that are read, or were, with what tells their goroutine that they have ended.
	runs   map[runID]chan struct{}
	active int
	ended  chan struct{}
	// streams holds one for each log that is open. An array may have had a thousand tasks: those that wait for their turn
	// have ended, or follow one that has.
	streams chan struct{}
}

func newFollower(r *reader) *follower {
	return &follower{
		reader: r, first: true, runs: map[runID]chan struct{}{}, ended: make(chan struct{}), streams: make(chan struct{}, r.options.maxStreams()),
	}
}

func follow(ctx context.Context, r *reader, jobs Jobs) (inventory.Job, error) {
	f := newFollower(r)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	states := make(chan []inventory.Job)
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error {
		return jobs.WatchJobs(inner, r.options.query(), func(jobs []inventory.Job) {
			select {
			case states <- jobs:
			case <-inner.Done():
			}
		})
	})
	err := f.loop(inner, group, states)
	cancel()
	if failure := group.Wait(); err == nil || errors.Is(err, context.Canceled) {
		if failure != nil && !errors.Is(failure, context.Canceled) {
			err = failure
		}
	}
	return f.job, err
}

// loop returns nil when the job has ended and all of its output was read.
func (f *follower) loop(ctx context.Context, group *errgroup.Group, states <-chan []inventory.Job) error {
	for {
		select {
		case jobs := <-states:
			if err := f.update(ctx, group, jobs); err != nil {
				return err
			}
		case <-f.ended:
			f.active--
		case <-ctx.Done():
			return ctx.Err()
		}
		if f.seen && f.active == 0 && isOver(f.job) {
			if len(f.runs) == 0 {
				return &NoOutputError{Job: f.job, Rank: f.options.Rank}
			}
			return nil
		}
	}
}

// update begins to read what is new, and tells what has ended.
func (f *follower) update(ctx context.Context, group *errgroup.Group, jobs []inventory.Job) error {
	job, err := f.options.query().Only(jobs)
	if errors.As(err, new(*inventory.NotFoundError)) && f.seen {
		job = f.job
		job.Status, job.Pods, err = inventory.StatusTerminating, nil, nil
	}
	if err != nil {
		return err
	}
	f.job, f.seen = job, true
	f.state(job)
	runs, err := runsOf(job, &f.options)
	if err != nil && (f.first || !errors.As(err, new(*SelectionError))) {
		return err
	}
	for _, source := range runs {
		over := f.runs[source.id]
		if over == nil {
			over = make(chan struct{})
			f.runs[source.id] = over
			f.begin(ctx, group, source, over)
		}
		if source.over {
			finish(over)
		}
	}
	f.finishGone(runs)
	f.first = false
	return nil
}

// finishGone ends what no state shows any more: a container that was restarted, a pod that is gone.
func (f *follower) finishGone(runs []run) {
	for id, over := range f.runs {
		if !slices.ContainsFunc(runs, func(r run) bool { return r.id == id }) {
			finish(over)
		}
	}
}

func finish(over chan struct{}) {
	select {
	case <-over:
	default:
		close(over)
	}
}

func (f *follower) begin(ctx context.Context, group *errgroup.Group, source run, over <-chan struct{}) {
	f.active++
	tail := f.options.Tail
	if !f.first {
		tail = nil
	}
	group.Go(func() error {
		select {
		case f.streams <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		err := f.copy(ctx, source, tail, over)
		<-f.streams
		select {
		case f.ended <- struct{}{}:
		case <-ctx.Done():
		}
		return err
	})
}

// copy reads the log of a run until the run is over, again and again if it has to, and then once to its end. Only
// errors that end everything are returned.
func (f *follower) copy(ctx context.Context, source run, tail *int64, over <-chan struct{}) error {
	at := &cursor{}
	how := opening{follow: true, tail: tail, since: f.options.Since}
	for delay := retryFirst; !isClosed(over); delay = min(2*delay, retryMost) {
		before := at.last
		err := f.copyOnce(ctx, source, how, at, over)
		if isFinal(ctx, err) {
			return err
		}
		f.report(source.Source, err)
		if at.last.After(before) {
			delay = retryFirst
			how = opening{follow: true, since: at.last}
		}
		at.reopen()
		pause(ctx, delay, over)
	}
	how.follow = false
	var err error
	for range lastAttempts {
		if err = f.copyOnce(ctx, source, how, at, nil); err == nil || isFinal(ctx, err) || apierrors.IsNotFound(err) {
			break
		}
		at.reopen()
		pause(ctx, retryFirst, nil)
	}
	f.report(source.Source, err)
	if isFinal(ctx, err) {
		return err
	}
	return nil
}

// isFinal reports whether an error ends everything: nobody listens any more, or the user may not read logs.
func isFinal(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.As(err, new(*emitError)) || apierrors.IsForbidden(err)
}

// report tells an error that a user can do something about. A pod that is gone is none, nor is a node that does not
// know the container yet which the API says has started.
func (f *follower) report(source Source, err error) {
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsBadRequest(err) {
		f.trouble(source, err)
	}
}

// copyOnce reads a log once. One that is followed is given up some time after its run is over: the connection to
// its node may be dead.
func (f *follower) copyOnce(ctx context.Context, source run, how opening, at *cursor, over <-chan struct{}) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	if how.follow {
		go func() {
			select {
			case <-over:
				pause(inner, settle, nil)
				cancel()
			case <-inner.Done():
			}
		}()
	}
	err := f.lines(inner, source, how, func(line Line) error {
		if !at.advance(line.Time) {
			return nil
		}
		return f.emit(line)
	})
	if inner.Err() != nil && ctx.Err() == nil && !errors.As(err, new(*emitError)) {
		return nil
	}
	return err
}

func isClosed(over <-chan struct{}) bool {
	select {
	case <-over:
		return true
	default:
		return false
	}
}

// pause waits, but not after ctx has ended or over was closed while waiting.
func pause(ctx context.Context, delay time.Duration, over <-chan struct{}) {
	if over != nil && isClosed(over) {
		return
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-over:
	case <-ctx.Done():
	}
}
