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

// guardVictims makes kube-scheduler's own preemption spare the victims that Coscheduling spares, and notify those that ask for it, in the
// profiles that have both plugins. The preemption plugin has hooks for that, and a profile's EnqueueExtensions are the only access to it from
// outside.
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
	wrapPreemption(own, gangs)
}

// preemptionsOf returns both plugins of a profile, nil for one that it does not have.
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
