package queue

import (
	"cmp"
	"slices"
	"time"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// slowController is how long a healthy controller may take to create the pods of a job.
const slowController = 5 * time.Second

// heldEntries returns the entries of jobs that wait for GPUs and have no pod that the scheduler looks at: their pods are rejected, gated or not created. They
// are in no queue, and no entry waits behind them.
func heldEntries(jobs []inventory.Job, now time.Time) []Entry {
	var out []Entry
	for i := range jobs {
		job := &jobs[i]
		cause := holdCause(job, now)
		if cause == "" || job.GPUs == 0 && len(job.MIG) == 0 {
			continue
		}
		pods, gpus := int(job.Desired), job.GPUs
		if job.Array != nil && job.Excess != nil { // its other tasks run
			pods, gpus = int(job.Refused), int64(job.Refused)*job.PodGPUs
		}
		out = append(out, Entry{
			Namespace: job.Namespace, Name: job.Name, Kind: job.Kind, Pool: job.Pool, PriorityClass: cmp.Or(classes[job.Priority], job.Priority),
			Pods: pods, GPUs: gpus, MIG: job.MIG, GPUTypes: job.GPUTypes, Since: job.Created, Trouble: job.Trouble,
			Cause: cause, Never: job.Excess != nil && job.Excess.Never,
		})
	}
	slices.SortFunc(out, compareEntries)
	return out
}

// holdCause is what keeps the pods of a job from the scheduler, as a cause of gpuctl why; "" if nothing does.
func holdCause(job *inventory.Job, now time.Time) reason.Cause {
	switch {
	case job.Refusal != "":
		return reason.CauseOfRefusal(job.Refusal)
	case job.Excess != nil || job.QuotaBehind != "":
		return reason.QuotaExceeded
	case job.Status != inventory.StatusPending:
		return ""
	}
	switch cause := reason.Cause(job.Reason); cause {
	case reason.WaitsForJobs, reason.HeldByKueue, reason.SchedulingGated, reason.Incomplete, reason.Replacing:
		return cause
	case reason.WaitingForControllers:
		if now.Sub(job.Created) > slowController {
			return cause
		}
	}
	return ""
}
