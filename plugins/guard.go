package plugins

import (
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"

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
	preemption, gangs := preemptionsOf(profile)
	if preemption == nil || gangs == nil {
		return
	}
	preemption.IsEligiblePod = func(_ fwk.NodeInfo, victim fwk.PodInfo, preemptor *corev1.Pod) bool {
		return gangs.MayEvict(victim.GetPod(), preemptor)
	}
	beginPolitely(preemption, gangs)
}

// preemptionsOf are the two of a profile, nil for one that it does not have.
func preemptionsOf(profile framework.Framework) (preemption *defaultpreemption.DefaultPreemption, gangs *coscheduling.Plugin) {
	for _, plugin := range profile.EnqueueExtensions() {
		switch plugin := plugin.(type) {
		case *defaultpreemption.DefaultPreemption:
			preemption = plugin
		case *coscheduling.Plugin:
			gangs = plugin
		}
	}
	return preemption, gangs
}
