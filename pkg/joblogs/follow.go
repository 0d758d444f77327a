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
	// retryFirst and retryMax are the first and the longest delay between two attempts to read a log; delays double.
	retryFirst = time.Second
	retryMax   = 16 * time.Second
	// settleDelay is how long the log of an ended container may still grow before it is read once more, to its end.
	settleDelay = 2 * time.Second
	// lastAttempts is the number of attempts to read the log of an ended container: waiting longer does not help.
	lastAttempts = 3
)

// follower reads the logs of a running job.
type follower struct {
	*reader
	job   inventory.Job
	seen  bool // the job existed
	first bool // the first state has not arrived yet
	// runs are the current and earlier runs, each with the channel that tells its goroutine that the run has ended.
	runs   map[runID]chan struct{}
	active int
	ended  chan struct{}
	// streams limits the open logs. An array may have had a thousand tasks: those that wait for their turn have ended, or follow one that has.
	streams chan struct{}
}

func newFollower(r *reader) *follower {
	return &follower{
		reader: r, first: true, runs: map[runID]chan struct{}{}, ended: make(chan struct{}), streams: make(chan struct{}, r.options.maxStreams()),
	}
}

func followLogs(ctx context.Context, r *reader, jobs Jobs) (inventory.Job, error) {
	f := newFollower(r)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	states := make(chan []inventory.Job)
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error {
		return jobs.WatchJobs(inner, r.options.jobQuery(), func(jobs []inventory.Job) {
			select {
			case states <- jobs:
			case <-inner.Done():
			}
		})
	})
	err := f.processStates(inner, group, states)
	cancel()
	if failure := group.Wait(); err == nil || errors.Is(err, context.Canceled) {
		if failure != nil && !errors.Is(failure, context.Canceled) {
			err = failure
		}
	}
	return f.job, err
}

// processStates returns nil when the job has ended and all of its output was read.
func (f *follower) processStates(ctx context.Context, group *errgroup.Group, states <-chan []inventory.Job) error {
	for {
		select {
		case jobs := <-states:
			if err := f.updateRuns(ctx, group, jobs); err != nil {
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

// updateRuns starts to read new runs, and closes the channels of ended ones.
func (f *follower) updateRuns(ctx context.Context, group *errgroup.Group, jobs []inventory.Job) error {
	job, err := f.options.jobQuery().OnlyJob(jobs)
	if errors.As(err, new(*inventory.NotFoundError)) && f.seen {
		job = f.job
		job.Status, job.Pods, err = inventory.StatusTerminating, nil, nil
	}
	if err != nil {
		return err
	}
	f.job, f.seen = job, true
	f.emitState(job)
	runs, err := selectRuns(job, &f.options)
	if err != nil && (f.first || !errors.As(err, new(*SelectionError))) {
		return err
	}
	for _, source := range runs {
		over := f.runs[source.id]
		if over == nil {
			over = make(chan struct{})
			f.runs[source.id] = over
			f.startCopy(ctx, group, source, over)
		}
		if source.over {
			closeOnce(over)
		}
	}
	f.finishGone(runs)
	f.first = false
	return nil
}

// finishGone ends the runs that no state shows any more: a container was restarted, or a pod is gone.
func (f *follower) finishGone(runs []run) {
	for id, over := range f.runs {
		if !slices.ContainsFunc(runs, func(r run) bool { return r.id == id }) {
			closeOnce(over)
		}
	}
}

func closeOnce(over chan struct{}) {
	select {
	case <-over:
	default:
		close(over)
	}
}

func (f *follower) startCopy(ctx context.Context, group *errgroup.Group, source run, over <-chan struct{}) {
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
		err := f.copyLog(ctx, source, tail, over)
		<-f.streams
		select {
		case f.ended <- struct{}{}:
		case <-ctx.Done():
		}
		return err
	})
}

// copyLog reads the log of a run until the run is over, with retries, and then once to its end. It returns only errors that end everything.
func (f *follower) copyLog(ctx context.Context, source run, tail *int64, over <-chan struct{}) error {
	at := &cursor{}
	how := openOptions{follow: true, tail: tail, since: f.options.Since}
	for delay := retryFirst; !isClosed(over); delay = min(2*delay, retryMax) {
		before := at.last
		err := f.copyOnce(ctx, source, how, at, over)
		if isFinal(ctx, err) {
			return err
		}
		f.reportError(source.Source, err)
		if at.last.After(before) {
			delay = retryFirst
			how = openOptions{follow: true, since: at.last}
		}
		at.resetForReopen()
		waitDelay(ctx, delay, over)
	}
	how.follow = false
	var err error
	for range lastAttempts {
		if err = f.copyOnce(ctx, source, how, at, nil); err == nil || isFinal(ctx, err) || apierrors.IsNotFound(err) {
			break
		}
		at.resetForReopen()
		waitDelay(ctx, retryFirst, nil)
	}
	f.reportError(source.Source, err)
	if isFinal(ctx, err) {
		return err
	}
	return nil
}

// isFinal reports whether an error ends everything: the reader is gone, or the user may not read logs.
func isFinal(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.As(err, new(*emitError)) || apierrors.IsForbidden(err)
}

// reportError reports an error that a user can act on. A missing pod is not one, nor is a node that does not know the container yet although the API
// says that it has started.
func (f *follower) reportError(source Source, err error) {
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsBadRequest(err) {
		f.emitTrouble(source, err)
	}
}

// copyOnce reads a log once. A followed log is abandoned some time after its run is over: the connection to its node may be dead.
func (f *follower) copyOnce(ctx context.Context, source run, how openOptions, at *cursor, over <-chan struct{}) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	if how.follow {
		go func() {
			select {
			case <-over:
				waitDelay(inner, settleDelay, nil)
				cancel()
			case <-inner.Done():
			}
		}()
	}
	err := f.readLines(inner, source, how, func(line Line) error {
		if !at.advanceTo(line.Time) {
			return nil
		}
		return f.emitLine(line)
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

// waitDelay waits for the delay, until ctx ends, or until over is closed while waiting.
func waitDelay(ctx context.Context, delay time.Duration, over <-chan struct{}) {
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
