package plugins

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"g8s.host/gpu-scheduler/plugins/coscheduling"
)

// beginPolitely has kube-scheduler's own preemption tell those first that ask for time to save their work, as Coscheduling does.
func beginPolitely(own *defaultpreemption.DefaultPreemption, gangs *coscheduling.Plugin) {
	evict := own.Evaluator.PreemptPod
	own.Evaluator.PreemptPod = func(ctx context.Context, on preemption.Candidate, preemptor, victim *corev1.Pod, plugin string) error {
		if stays, err := gangs.Tell(ctx, preemptor, victim, on.Victims().Pods); stays || err != nil {
			return err
		}
		return evict(ctx, on, preemptor, victim, plugin)
	}
	own.Evaluator.Interface = patient{Interface: own.Evaluator.Interface, gangs: gangs}
}

// patient evicts nobody while those have time that were told to leave.
type patient struct {
	preemption.Interface

	gangs *coscheduling.Plugin
}

// PodEligibleToPreemptOthers implements preemption.Interface. Where a pod cannot go any more, others have to leave for it.
func (p patient) PodEligibleToPreemptOthers(ctx context.Context, pod *corev1.Pod, nominated *fwk.Status) (bool, string) {
	lost := pod.Status.NominatedNodeName != "" && nominated.Code() == fwk.UnschedulableAndUnresolvable
	if why := p.gangs.Awaits(pod, lost); why != "" {
		return false, why
	}
	return p.Interface.PodEligibleToPreemptOthers(ctx, pod, nominated)
}

// takeOver has a scheduler that begins to lead go on with what the one before it has told pods: only who leads asks for a pod.
func takeOver(next nextPod, sched *scheduler.Scheduler) nextPod {
	var took bool // one loop asks
	return func(logger klog.Logger) (*framework.QueuedPodInfo, error) {
		if !took {
			took = true
			for _, profile := range sched.Profiles {
				if _, gangs := preemptionsOf(profile); gangs != nil {
					gangs.TakeOver()
				}
			}
		}
		return next(logger)
	}
}
