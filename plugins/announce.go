package plugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gang"
)

// announceNoMembers stops kube-scheduler from nominating gang members for the node that they are about to be bound to. A nomination says that
// victims leave the node for the member. It would also outlive the place: when a member loses its place right away, kube-scheduler clears the
// nomination as the informers know it. They have not seen it yet, so nothing is written, and then they see it.
func announceNoMembers(sched *scheduler.Scheduler) {
	for name, profile := range sched.Profiles {
		if _, gangs := preemptionsOf(profile); gangs != nil {
			sched.Profiles[name] = unannouncedProfile{profile}
		}
	}
}

// unannouncedProfile is a profile that nominates no gang members. kube-scheduler does so for pods whose binding takes time, which it determines
// in the following two ways.
type unannouncedProfile struct{ framework.Framework }

// WillWaitOnPermit implements framework.Framework.
func (d unannouncedProfile) WillWaitOnPermit(ctx context.Context, pod *corev1.Pod) bool {
	return !gang.MayBeMember(pod) && d.Framework.WillWaitOnPermit(ctx, pod)
}

// RunPreBindPreFlights implements framework.Framework.
func (d unannouncedProfile) RunPreBindPreFlights(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) *fwk.Status {
	status := d.Framework.RunPreBindPreFlights(ctx, state, pod, node)
	if status.IsSuccess() && gang.MayBeMember(pod) {
		return fwk.NewStatus(fwk.Skip)
	}
	return status
}
