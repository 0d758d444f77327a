package idle

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"g8s.host/gpu-scheduler/pkg/gpumetrics"
	"g8s.host/gpu-scheduler/pkg/jobplan"
)

const (
	// step is the window in which a GPU must be busy once. It leaves no gaps with exporters that are scraped every minute.
	step = 5 * time.Minute
	// checkInterval is the interval between checks.
	checkInterval = step
	// maxSteps bounds the steps of one Prometheus query. For 8,000 GPUs the answer has some 14 MB.
	maxSteps = 72

	eventIdle   = "GPUsIdle"
	eventPaused = "PausedIdleJob"
	actionLook  = "LookForIdleGPUs"
)

// Settings are set by an administrator.
type Settings struct {
	// Below is the load in percent below which a GPU is idle.
	Below float64
	// WarnAfter is how long a job must be idle before a warning, 0 for never.
	WarnAfter time.Duration
}

// Prometheus provides the past load of GPUs; [gpumetrics.Client] implements it.
type Prometheus interface {
	ReadPast(ctx context.Context, end time.Time, step time.Duration, steps int) (*gpumetrics.Past, error)
}

// Watcher checks all jobs periodically.
type Watcher struct {
	Client client.Client
	// Live reads a job again before it is paused.
	Live       client.Reader
	Events     events.EventRecorder
	Clock      clock.WithTicker
	Prometheus Prometheus
	Settings   Settings

	// warned are the jobs that have got a warning since they were last busy.
	warned map[types.UID]bool
}

// SetUp adds the watcher to a manager. It runs on the leader.
func (w *Watcher) SetUp(manager ctrl.Manager) error { return manager.Add(w) }

// Start checks jobs until ctx ends.
func (w *Watcher) Start(ctx context.Context) error {
	ticker := w.Clock.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		if err := w.checkJobs(ctx); err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "Idle GPUs were not looked for")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// checkJobs checks all jobs once. Without an answer from Prometheus it does nothing.
func (w *Watcher) checkJobs(ctx context.Context) error {
	jobs, err := gatherJobs(ctx, w.Client)
	if err != nil || len(jobs) == 0 {
		return err
	}
	past, err := w.readPast(ctx, jobs)
	if err != nil {
		return err
	}
	warned := map[types.UID]bool{}
	for i := range jobs {
		job := &jobs[i]
		idle := IdleDuration(job.pods, past, w.Settings.Below)
		switch Decide(idle, job.timeout, w.Settings.WarnAfter) {
		case Pause:
			if err := w.pauseJob(ctx, job, idle); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "An idle job was not paused", "namespace", job.top.GetNamespace(), "object", job.top.GetName())
			}
		case Warn:
			if warned[job.top.GetUID()] = true; !w.warned[job.top.GetUID()] {
				w.Events.Eventf(job.top, nil, corev1.EventTypeWarning, eventIdle, actionLook, "%s", warningText(job, idle, w.Settings.Below))
			}
		}
	}
	w.warned = warned
	return nil
}

func warningText(job *job, idle time.Duration, below float64) string {
	text := fmt.Sprintf("the job holds %d GPUs, which have been less than %g%% busy for %s", jobplan.GPUs(job.top), below, formatDuration(idle))
	if job.timeout > 0 {
		return text + "; after " + formatDuration(job.timeout) + " it is paused"
	}
	return text + "; gpuctl pause gives them to others"
}

// formatDuration formats a duration for people: 2h30m.
func formatDuration(d time.Duration) string {
	d = d.Truncate(time.Minute)
	switch hours, minutes := int(d.Hours()), int(d.Minutes())%60; {
	case hours == 0:
		return fmt.Sprintf("%dm", minutes)
	case minutes == 0:
		return fmt.Sprintf("%dh", hours)
	default:
		return fmt.Sprintf("%dh%dm", hours, minutes)
	}
}

// readPast reads as much history as a decision may need: the last hours for all jobs, and older history only while a job that asks to be paused has been
// idle through all known history.
func (w *Watcher) readPast(ctx context.Context, jobs []job) (*gpumetrics.Past, error) {
	end := w.Clock.Now().Truncate(time.Second)
	var out *gpumetrics.Past
	for steps := 0; ; {
		longest := w.neededPast(jobs, out)
		if out != nil && longest <= time.Duration(steps)*step {
			return out, nil
		}
		count := min(maxSteps, int(longest/step)+1-steps)
		next, err := w.Prometheus.ReadPast(ctx, end.Add(-time.Duration(steps)*step), step, count)
		if err != nil {
			return nil, err
		}
		if steps += count; out == nil {
			out = next
		} else {
			out.Prepend(next)
		}
	}
}

// neededPast is how far back the history matters: the timeout of a job that is idle in all known history.
func (w *Watcher) neededPast(jobs []job, known *gpumetrics.Past) time.Duration {
	longest := max(w.Settings.WarnAfter, minTimeout)
	for i := range jobs {
		if known != nil && IdleDuration(jobs[i].pods, known, w.Settings.Below) >= known.Length() {
			longest = max(longest, jobs[i].timeout)
		}
	}
	return longest
}

// pauseJob pauses a job that has not changed since the check.
func (w *Watcher) pauseJob(ctx context.Context, idle *job, since time.Duration) error {
	live, ok := idle.top.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", idle.top)
	}
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(live), live); err != nil {
		return client.IgnoreNotFound(err)
	}
	if live.GetUID() != idle.top.GetUID() || timeoutOf(live) != idle.own || jobplan.StateOf(live) != jobplan.StateActive {
		return nil // it has changed: the next check handles it
	}
	why := fmt.Sprintf("the job was paused as its GPUs had been less than %g%% busy for %s", w.Settings.Below, formatDuration(since))
	step, err := jobplan.PauseBecause(live, w.Clock.Now(), why)
	if refused := (*jobplan.StateError)(nil); errors.As(err, &refused) { // Kueue would start it again
		return nil
	}
	if err != nil || step.Patch == nil {
		return err
	}
	err = w.Client.Patch(ctx, live, client.RawPatch(types.MergePatchType, step.Patch))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("pausing it: %w", err)
	}
	w.Events.Eventf(live, nil, corev1.EventTypeNormal, eventPaused, actionLook, "%s; gpuctl resume lets it run again", why)
	return nil
}
