package queue

import (
	"slices"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// classes are the priority classes of what gpuctl calls a priority.
var classes = map[string]string{"high": names.PriorityClassHigh, "medium": names.PriorityClassMedium, "low": names.PriorityClassLow}

// refused are the entries of jobs whose pods a quota keeps from being created. They are in no line, and nobody waits
// behind them.
func refused(jobs []inventory.Job) []Entry {
	var out []Entry
	for i := range jobs {
		job := &jobs[i]
		if job.Excess == nil || job.GPUs == 0 {
			continue
		}
		out = append(out, Entry{
			Namespace: job.Namespace, Name: job.Name, Kind: job.Kind, Pool: job.Pool, PriorityClass: classes[job.Priority],
			Pods: int(job.Desired), GPUs: job.GPUs, GPUTypes: job.GPUTypes, Since: job.Created, Trouble: job.Trouble,
			Cause: reason.QuotaExceeded, Never: job.Excess.Never,
		})
	}
	slices.SortFunc(out, inOrder)
	return out
}
