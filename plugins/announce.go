package plugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gang"
)

// announceNoMembers has kube-scheduler nominate no member of a gang for the node that it is about to be bound to. What is nominated says
// that others leave that node for the member. And the nomination would outlive the place: a member that loses it right away has its
// nomination taken back as the informers know it, which have not heard of it yet, so that nothing is written; then they hear of it.
func announceNoMembers(sched *scheduler.Scheduler) {
	for name, profile := range sched.Profiles {
		if _, gangs := preemptionsOf(profile); gangs != nil {
			sched.Profiles[name] = discreet{profile}
		}
	}
}

// discreet is a profile that has no member of a gang announced. kube-scheduler does that for pods whose binding takes time, and these are
// the two ways in which it asks whether it does.
type discreet struct{ framework.Framework }

// WillWaitOnPermit implements framework.Framework.
func (d discreet) WillWaitOnPermit(ctx context.Context, pod *corev1.Pod) bool {
	return !gang.MayBeMember(pod) && d.Framework.WillWaitOnPermit(ctx, pod)
}

// RunPreBindPreFlights implements framework.Framework.
func (d discreet) RunPreBindPreFlights(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	status := d.Framework.RunPreBindPreFlights(ctx, state, pod, node)
	if status.IsSuccess() && gang.MayBeMember(pod) {
		return fwk.NewStatus(fwk.Skip)
	}
	return status
}
