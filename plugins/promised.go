package plugins

import (
	"k8s.io/kubernetes/pkg/scheduler"

	"g8s.host/gpu-scheduler/pkg/backfill"
	"g8s.host/gpu-scheduler/plugins/gpufilter"
)

// followPromises requeues the pods that wait for reserved nodes when a start reservation ends, or moves to a later time.
func followPromises(sched *scheduler.Scheduler) {
	for _, profile := range sched.Profiles {
		for _, plugin := range profile.EnqueueExtensions() {
			filter, ok := plugin.(*gpufilter.Plugin)
			if !ok || filter.Promises() == nil {
				continue
			}
			nodes, first := profile.SharedInformerFactory().Core().V1().Nodes().Lister(), firstOfGangs(sched)
			filter.Promises().OnRelease(func(change backfill.Release) {
				tell(sched.SchedulingQueue, nodesOf(nodes, change.Nodes), first, change.Helps)
			})
			return // all profiles have the same
		}
	}
}
