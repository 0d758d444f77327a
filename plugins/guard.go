package plugins

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"g8s.host/gpu-scheduler/plugins/coscheduling"
)

// guardVictims has kube-scheduler's own preemption leave those alone that Coscheduling does, and tell those first who ask for it, in the profiles that have both. That
// plugin is made to be told so, and a profile's events are the one way to it from outside.
func guardVictims(sched *scheduler.Scheduler) {
	for _, profile := range sched.Profiles {
		guardProfile(profile)
	}
}

func guardProfile(profile framework.Framework) {
	own, gangs := preemptionsOf(profile)
	if own == nil || gangs == nil {
		return
	}
	own.IsEligiblePod = func(_ fwk.NodeInfo, victim preemption.Victim, preemptor *corev1.Pod) bool {
		return !slices.ContainsFunc(victim.Pods(), func(pod fwk.PodInfo) bool { return !gangs.MayEvict(pod.GetPod(), preemptor) })
	}
	beginPolitely(own, gangs)
}

// preemptionsOf are the two of a profile, nil for one that it does not have.
func preemptionsOf(profile framework.Framework) (own *defaultpreemption.DefaultPreemption, gangs *coscheduling.Plugin) {
	for _, plugin := range profile.EnqueueExtensions() {
		switch plugin := plugin.(type) {
		case *defaultpreemption.DefaultPreemption:
			own = plugin
		case *coscheduling.Plugin:
			gangs = plugin
		}
	}
	return own, gangs
}
