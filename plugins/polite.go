package plugins

import (
	"context"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	listersv1 "k8s.io/client-go/listers/core/v1"
	componentmetrics "k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"g8s.host/gpu-scheduler/plugins/coscheduling"
)

// beginPolitely has kube-scheduler's own preemption give notice to pods that ask for time to save their work, as Coscheduling does, and evict no
// pod for one whose binding would be refused.
func beginPolitely(own *defaultpreemption.DefaultPreemption, gangs *coscheduling.Plugin) {
	evict := own.Executor.PreemptPod
	var foreseen questions
	own.Executor.PreemptPod = func(ctx context.Context, on preemption.Candidate, by preemption.ExecutorPreemptor, victim *corev1.Pod, plugin string) (bool, error) {
		if by.Type() != string(fwk.PodKeyType) { // a PodGroup of Kubernetes, of which Coscheduling knows nothing
			return evict(ctx, on, by, victim, plugin)
		}
		preemptor := by.Pods()[by.GetName()]
		if foreseen.ask(on, func() bool { return gangs.WouldBeRefused(ctx, preemptor, on.Name()) }) {
			return false, errForeseen
		}
		if stays, err := gangs.Tell(ctx, preemptor, victim, on.Victims().Pods); stays || err != nil {
			return false, err
		}
		inMemory, err := evict(ctx, on, named{by, preemptor}, victim, plugin)
		if err == nil {
			gangs.CountEviction()
		}
		if err == nil && isGone(own.Evaluator.PodLister, victim) {
			own.Evaluator.Handler.Activate(klog.FromContext(ctx), map[string]*corev1.Pod{preemptor.Name: preemptor})
		}
		return inMemory, err
	}
	own.Evaluator.Interface = patient{Interface: own.Evaluator.Interface, gangs: gangs}
	countOnce()
	gangs.OnEvictions(func(count int) { victims.own.Observe(float64(count)) })
}

// named is a pod that others leave for. kube-scheduler hands a type of its own to the recorder of events instead, which knows only those of the
// API, so that the event of the pod that leaves would not say for which one.
type named struct {
	preemption.ExecutorPreemptor
	pod *corev1.Pod
}

// Obj implements preemption.ExecutorPreemptor.
func (n named) Obj() runtime.Object { return n.pod }

// isGone reports whether the informers know already that a victim has left. The queue was told then, perhaps while it held the preemptor
// back for its preemption to end: kube-scheduler relies on an eviction to be followed by news of it, and of who was gone before there is
// none. With nothing else happening the preemptor would wait for ever beside free cards; such pods are not flushed after minutes either.
func isGone(pods listersv1.PodLister, victim *corev1.Pod) bool {
	now, err := pods.Pods(victim.Namespace).Get(victim.Name)
	return err != nil || now.UID != victim.UID
}

// victims is the metric of those whom preemption has selected, in this process; own is as kube-scheduler made it, for those who leave for gangs. again says that those of the next selection were
// told before, and have been counted by that.
var victims struct {
	once  sync.Once
	own   componentmetrics.ObserverMetric
	again atomic.Bool
}

// countOnce has the metric leave out who leaves after a notice: kube-scheduler counts whom it selects, and selects them once to be told
// and once to be evicted. It counts within the attempt of the preemptor, of which there is one at a time.
func countOnce() {
	victims.once.Do(func() {
		victims.own = metrics.PreemptionVictims.ObserverMetric
		metrics.PreemptionVictims.ObserverMetric = uncountedAgain{metrics.PreemptionVictims.ObserverMetric}
	})
}

type uncountedAgain struct {
	componentmetrics.ObserverMetric
}

// Observe implements componentmetrics.ObserverMetric.
func (u uncountedAgain) Observe(count float64) {
	if !victims.again.Swap(false) {
		u.ObserverMetric.Observe(count)
	}
}

// patient evicts nobody while those have time that were told to leave.
type patient struct {
	preemption.Interface

	gangs *coscheduling.Plugin
}

// PodEligibleToPreemptOthers implements preemption.Interface. Where a pod cannot go any more, others have to leave for it.
func (p patient) PodEligibleToPreemptOthers(ctx context.Context, pod *corev1.Pod, nominated *fwk.Status) (bool, string) {
	lost := pod.Status.NominatedNodeName != "" && nominated.Code() == fwk.UnschedulableAndUnresolvable
	why := p.gangs.Awaits(pod, lost)
	victims.again.Store(p.gangs.HasTold(pod))
	if why != "" {
		return false, why
	}
	return p.Interface.PodEligibleToPreemptOthers(ctx, pod, nominated)
}

// takeOver has a scheduler that begins to lead go on with what the one before it has told pods, and complete the gangs that it left half
// placed before it begins others: only who leads asks for a pod.
func takeOver(next nextEntity, sched *scheduler.Scheduler) nextEntity {
	var took bool // one loop asks
	return func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		if !took {
			took = true
			for name, profile := range sched.Profiles {
				if _, gangs := preemptionsOf(profile); gangs != nil {
					gangs.TakeOver()
					queueAnew(sched.SchedulingQueue, gangs.Halves(name))
				}
			}
		}
		return next(logger)
	}
}
