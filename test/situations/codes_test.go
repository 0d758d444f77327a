package situations

import (
	"cmp"
	"slices"
	"testing"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/queue"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// TestOneCodeForOneCause compares what gpuctl why says first with the code of lists, which REST and the terminal UI show as well, and with that of the
// queue. They are the same, or the broader one where lists do not read what why goes by.
func TestOneCodeForOneCause(t *testing.T) {
	all := AllSituations()
	for i := range all {
		t.Run(all[i].Name, func(t *testing.T) {
			w := all[i].World()
			want := diagnosis.Diagnose(w.Facts()).Cause
			objects := w.Objects()
			job := w.Job()
			diagnosis.ReplaceByLeaderState(&job, objects.Leader())
			if isEnded(&job) {
				return // its reason is how it ended, in Kubernetes' words
			}
			if got := reason.Cause(job.Reason); !isSameCause(got, want) {
				t.Errorf("why says %s, and lists %s: %s", want, got, job.Message)
			}
			waiting := queue.Build(objects, inventory.Build(objects).Jobs, objects.Leader(), Noon).Entries
			at := slices.IndexFunc(waiting, func(e queue.Entry) bool { return e.Name == jobName })
			switch {
			case at < 0 && waitsForGPUs(&job):
				t.Errorf("why says %s, and the queue does not have it", want)
			case at >= 0 && len(w.placed) == 0:
				if got := cmp.Or(waiting[at].Cause, reason.Cause(waiting[at].Reason)); !isSameCause(got, want) {
					t.Errorf("why says %s, and the queue %s: %s", want, got, waiting[at].Message)
				}
			}
		})
	}
}

func isSameCause(listed, first reason.Cause) bool { return listed == first || listed == first.Broad() }

func isEnded(job *inventory.Job) bool { return job.Status == inventory.StatusFailed }

// waitsForGPUs reports whether a job is to be in the queue: it waits, and nobody has paused it.
func waitsForGPUs(job *inventory.Job) bool {
	return job.Status == inventory.StatusPending && !slices.Contains([]reason.Cause{reason.OtherScheduler, reason.Evicted, reason.Preempted}, reason.Cause(job.Reason))
}
