package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"g8s.host/gpu-scheduler/pkg/sandbox"
)

// Scheduler is one that is measured.
type Scheduler struct {
	// Name is what the report calls it.
	Name string
	// Config is the path of its configuration, "" for the one that we ship.
	Config string
}

// Result is what one measurement found.
type Result struct {
	// FirstBinding is how long after the start of the process the first pod is bound. 0 was not measured.
	FirstBinding time.Duration
	// PodsPerSecond is the rate between the first binding and the last.
	PodsPerSecond float64
	// CPUPerPod is what the scheduler's process used, from its start to the last binding, a pod.
	CPUPerPod time.Duration
	// PeakMemory is the most resident memory of the process, in bytes.
	PeakMemory int64
	// Attempt50, Attempt95 and Attempt99 are quantiles of the time from taking a pod from the queue to its binding, by
	// the buckets of the scheduler's own histogram.
	Attempt50, Attempt95, Attempt99 time.Duration
	// WritesPerPod is how many requests changed something in the API server, a pod.
	WritesPerPod float64
}

// Backlog measures how a scheduler works off pods of one GPU that wait when it starts.
func (l *Lab) Backlog(ctx context.Context, s Scheduler, pods int) (Result, error) {
	return l.backlog(ctx, s, pods, func(ctx context.Context) error { return l.createPods(ctx, pods, 1) })
}

// backlog measures how a scheduler works off so many pods, which are created before it starts.
func (l *Lab) backlog(ctx context.Context, s Scheduler, pods int, create func(context.Context) error) (result Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := create(ctx); err != nil {
		return Result{}, fmt.Errorf("creating %d pods: %w", pods, err)
	}
	defer func() { err = errors.Join(err, l.deletePods(context.WithoutCancel(ctx))) }()
	seen, err := l.watchBindings(ctx)
	if err != nil {
		return Result{}, err
	}
	defer seen.stop()
	began := time.Now()
	process, err := l.start(ctx, s)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, process.Stop()) }()
	return l.workOff(ctx, process, seen, began, pods)
}

// flags are those of every scheduler. The verbosity is that of production. The lease is long, since a machine that is
// busy with a measurement may not renew a short one in time.
var flags = []string{
	"-v=2", "--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=50s", "--leader-elect-retry-period=1s",
}

// start runs a scheduler.
func (l *Lab) start(ctx context.Context, s Scheduler) (*sandbox.Process, error) {
	process, err := l.sandbox.StartScheduler(ctx, sandbox.SchedulerOptions{ConfigPath: s.Config, Args: flags, ReadyTimeout: patience})
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", s.Name, err)
	}
	return process, nil
}

func (l *Lab) workOff(ctx context.Context, process *sandbox.Process, seen *bindings, began time.Time, pods int) (Result, error) {
	var first, last time.Time
	for i := range pods {
		_, at, err := seen.next(ctx, process.Done())
		if err != nil {
			return Result{}, err
		}
		if i == 0 {
			first = at
		}
		last = at
	}
	used, err := usageOf(process.PID())
	if err != nil {
		return Result{}, err
	}
	counted, err := l.scrape(process.Port())
	if err != nil {
		return Result{}, err
	}
	attempts := counted.attempts()
	return Result{
		FirstBinding:  first.Sub(began),
		PodsPerSecond: float64(pods-1) / last.Sub(first).Seconds(),
		CPUPerPod:     used.cpu / time.Duration(pods),
		PeakMemory:    used.peak,
		Attempt50:     quantile(attempts, 0.50),
		Attempt95:     quantile(attempts, 0.95),
		Attempt99:     quantile(attempts, 0.99),
		WritesPerPod:  counted.writes() / float64(pods),
	}, nil
}
