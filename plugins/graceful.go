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

// wrapPreemption makes kube-scheduler's own preemption notify victims that ask for time to save their work, as Coscheduling does, and evict no
// pod for a preemptor whose binding would be refused.
func wrapPreemption(own *defaultpreemption.DefaultPreemption, gangs *coscheduling.Plugin) {
	evict := own.Executor.PreemptPod
	var foreseen bindChecks
	own.Executor.PreemptPod = func(ctx context.Context, on preemption.Candidate, by preemption.ExecutorPreemptor, victim *corev1.Pod, plugin string) (bool, error) {
		if by.Type() != string(fwk.PodKeyType) { // a PodGroup of Kubernetes, of which Coscheduling knows nothing
			return evict(ctx, on, by, victim, plugin)
		}
		preemptor := by.Pods()[by.GetName()]
		if foreseen.checkOnce(on, func() bool { return gangs.WouldBeRefused(ctx, preemptor, on.Name()) }) {
			return false, errWouldBeRefused
		}
		if stays, err := gangs.NotifyVictim(ctx, preemptor, victim, on.Victims().Pods); stays || err != nil {
			return false, err
		}
		inMemory, err := evict(ctx, on, podPreemptor{by, preemptor}, victim, plugin)
		if err == nil {
			gangs.CountEviction()
		}
		if err == nil && isGone(own.Evaluator.PodLister, victim) {
			own.Evaluator.Handler.Activate(klog.FromContext(ctx), map[string]*corev1.Pod{preemptor.Name: preemptor})
		}
		return inMemory, err
	}
	own.Evaluator.Interface = patientPreemption{Interface: own.Evaluator.Interface, gangs: gangs}
	deduplicateVictimMetric()
	gangs.OnEvictions(func(count int) { victimMetric.own.Observe(float64(count)) })
}

// podPreemptor is the preemptor. kube-scheduler passes a type of its own to the event recorder, which only knows API types, so the event of the
// victim would not name the preemptor.
type podPreemptor struct {
	preemption.ExecutorPreemptor
	pod *corev1.Pod
}

// Obj implements preemption.ExecutorPreemptor.
func (n podPreemptor) Obj() runtime.Object { return n.pod }

// isGone reports whether the informers already show that a victim has left. The queue has then processed that event, perhaps while it held the
// preemptor back until the end of its preemption: kube-scheduler relies on an event after each eviction, and a victim that left earlier causes
// none. Without any other event the preemptor would wait forever beside free GPUs; such pods are not flushed after minutes either.
func isGone(pods listersv1.PodLister, victim *corev1.Pod) bool {
	now, err := pods.Pods(victim.Namespace).Get(victim.Name)
	return err != nil || now.UID != victim.UID
}

// victimMetric is the metric of selected victims in this process. own is kube-scheduler's metric, used for the victims of gangs. again says that the
// victims of the next selection were notified before, and are counted already.
var victimMetric struct {
	once  sync.Once
	own   componentmetrics.ObserverMetric
	again atomic.Bool
}

// deduplicateVictimMetric stops the metric from counting notified victims twice: kube-scheduler counts the victims that it selects, and selects
// them once for the notice and once for the eviction. It counts within the attempt of the preemptor; attempts do not overlap.
func deduplicateVictimMetric() {
	victimMetric.once.Do(func() {
		victimMetric.own = metrics.PreemptionVictims.ObserverMetric
		metrics.PreemptionVictims.ObserverMetric = deduplicatedMetric{metrics.PreemptionVictims.ObserverMetric}
	})
}

type deduplicatedMetric struct {
	componentmetrics.ObserverMetric
}

// Observe implements componentmetrics.ObserverMetric.
func (u deduplicatedMetric) Observe(count float64) {
	if !victimMetric.again.Swap(false) {
		u.ObserverMetric.Observe(count)
	}
}

// patientPreemption evicts no pods while notified victims have time.
type patientPreemption struct {
	preemption.Interface

	gangs *coscheduling.Plugin
}

// PodEligibleToPreemptOthers implements preemption.Interface. If a pod can no longer use its nominated node, other victims have to be found.
func (p patientPreemption) PodEligibleToPreemptOthers(ctx context.Context, pod *corev1.Pod, nominated *fwk.Status) (bool, string) {
	lost := pod.Status.NominatedNodeName != "" && nominated.Code() == fwk.UnschedulableAndUnresolvable
	why := p.gangs.PreemptionHoldReason(pod, lost)
	victimMetric.again.Store(p.gangs.HasNotified(pod))
	if why != "" {
		return false, why
	}
	return p.Interface.PodEligibleToPreemptOthers(ctx, pod, nominated)
}

// resumeLeadership makes a new leader continue the notices of its predecessor, and complete the partially bound gangs before it begins others: only a
// leader asks for a pod.
func resumeLeadership(next nextEntity, sched *scheduler.Scheduler) nextEntity {
	var took bool // only one loop calls this
	return func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		if !took {
			took = true
			for name, profile := range sched.Profiles {
				if _, gangs := preemptionsOf(profile); gangs != nil {
					gangs.TakeOver()
					queueAnew(sched.SchedulingQueue, gangs.PendingPartialGangs(name))
				}
			}
		}
		return next(logger)
	}
}
