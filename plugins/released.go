package plugins

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	listersv1 "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"

	"g8s.host/gpu-scheduler/pkg/reservation"
	"g8s.host/gpu-scheduler/plugins/gpufilter"
)

// followReleases has the pods tried again that wait for nodes which are kept from them no longer. To them such a node is a new
// one, so that is what their plugins are told: each wakes whom the node suits.
func followReleases(sched *scheduler.Scheduler) {
	for _, profile := range sched.Profiles {
		for _, plugin := range profile.EnqueueExtensions() {
			filter, ok := plugin.(*gpufilter.Plugin)
			if !ok || filter.Reservations() == nil {
				continue
			}
			nodes := profile.SharedInformerFactory().Core().V1().Nodes().Lister()
			filter.Reservations().OnRelease(func(windows []reservation.Window) {
				tellOf(sched, released(nodes, windows))
			})
			return // all profiles have the same
		}
	}
}

var nodeAdded = fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}

// released are the nodes of some windows.
func released(nodes listersv1.NodeLister, windows []reservation.Window) (out []*corev1.Node) {
	all, err := nodes.List(labels.Everything())
	if err != nil {
		return nil // it is in memory
	}
	for _, node := range all {
		for i := range windows {
			if windows[i].Keeps(node) {
				out = append(out, node)
				break
			}
		}
	}
	return out
}
