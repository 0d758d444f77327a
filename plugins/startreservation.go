package plugins

import (
	"k8s.io/kubernetes/pkg/scheduler"

	"g8s.host/gpu-scheduler/pkg/backfill"
	"g8s.host/gpu-scheduler/plugins/gpufilter"
)

// retryOnReservationEnd requeues the pods that wait for reserved nodes when a start reservation ends, or moves to a later time.
func retryOnReservationEnd(sched *scheduler.Scheduler) {
	for _, profile := range sched.Profiles {
		for _, plugin := range profile.EnqueueExtensions() {
			filter, ok := plugin.(*gpufilter.Plugin)
			if !ok || filter.StartReservations() == nil {
				continue
			}
			nodes, first := profile.SharedInformerFactory().Core().V1().Nodes().Lister(), gangRepresentative(sched)
			filter.StartReservations().OnRelease(func(change backfill.Release) {
				requeueForNodes(sched.SchedulingQueue, nodesByName(nodes, change.Nodes), first, change.FreesRoomFor)
			})
			return // all profiles have the same
		}
	}
}
