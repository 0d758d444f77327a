package plugins

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler"

	"g8s.host/gpu-scheduler/plugins/gpufilter"
)

// followPromises has the pods tried again that wait for nodes which are promised to another job no longer, or from a later time on.
func followPromises(sched *scheduler.Scheduler) {
	for _, profile := range sched.Profiles {
		for _, plugin := range profile.EnqueueExtensions() {
			filter, ok := plugin.(*gpufilter.Plugin)
			if !ok || filter.Promises() == nil {
				continue
			}
			nodes := profile.SharedInformerFactory().Core().V1().Nodes().Lister()
			filter.Promises().OnRelease(func(names []string) {
				var released []*corev1.Node
				for _, name := range names {
					if node, err := nodes.Get(name); err == nil {
						released = append(released, node)
					}
				}
				tell(sched.SchedulingQueue, released, func(*corev1.Pod) bool { return true })
			})
			return // all profiles have the same
		}
	}
}
