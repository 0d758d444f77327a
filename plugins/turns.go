package plugins

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/fair"
	"g8s.host/gpu-scheduler/plugins/coscheduling"
)

// lookEach is how long a queue snapshot is valid, as a multiple of the time that it took: at most a twentieth of the loop's time goes into
// snapshots, however many pods are queued.
const lookEach = 20

// mostGone is how many departed pods are skipped one after the other.
const mostGone = 8

// turns let namespaces take turns in the queue when pods of equal priority wait: each pays for the time of its attempts. Otherwise thousands of
// pods of one namespace would make all others wait until each of them was tried. Within a namespace the order is that of the queue, and so is
// the order of all pods while no namespace has used more than the others. Only the loop uses them.
type turns struct {
	pop   nextEntity
	line  *orderedQueue
	gangs *coscheduling.Plugin
	now   func() time.Time
	share fair.Turns
	seen  look
	// last is the pod that was taken last, nil for none or a PodGroup of Kubernetes. payer is the namespace of the running attempt, which
	// started at began.
	last  *corev1.Pod
	payer string
	began time.Time
}

// orderedQueue serializes events of waiting pods with the operations of turns.
type orderedQueue struct {
	queue.SchedulingQueue
	mu sync.RWMutex // locked by turns: events of two pods may be concurrent
	// fails is called for a pod whose attempt failed.
	fails func(*corev1.Pod)
}

// AddUnschedulablePodIfNotPresent implements queue.SchedulingQueue.
func (q *orderedQueue) AddUnschedulablePodIfNotPresent(logger klog.Logger, info *framework.QueuedPodInfo, cycle int64) error {
	q.fails(info.Pod)
	return q.SchedulingQueue.AddUnschedulablePodIfNotPresent(logger, info, cycle) //nolint:wrapcheck // it is in the queue's place
}

// Add implements queue.SchedulingQueue.
func (q *orderedQueue) Add(ctx context.Context, pod *corev1.Pod) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	q.SchedulingQueue.Add(ctx, pod)
}

// Update implements queue.SchedulingQueue.
func (q *orderedQueue) Update(ctx context.Context, before, pod *corev1.Pod) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	q.SchedulingQueue.Update(ctx, before, pod)
}

// Delete implements queue.SchedulingQueue.
func (q *orderedQueue) Delete(logger klog.Logger, pod *corev1.Pod) {
	q.mu.RLock()
	defer q.mu.RUnlock()
	q.SchedulingQueue.Delete(logger, pod)
}

// AddNominatedPod implements fwk.PodNominator. kube-scheduler clears the nomination of a refused pod by nominating it to the node "". Its queue
// also keeps a list of the pods of that node, and scans it each time: each attempt would cost more with each waiting pod.
func (q *orderedQueue) AddNominatedPod(logger klog.Logger, pod fwk.PodInfo, to *fwk.NominatingInfo) {
	if to.Mode() == fwk.ModeOverride && to.NominatedNodeName == "" {
		q.DeleteNominatedPodIfExists(pod.GetPod())
		return
	}
	q.SchedulingQueue.AddNominatedPod(logger, pod, to)
}

// turnsOf returns the turns of a scheduler, nil if its pods are not sorted by Coscheduling. It is called before anything else wraps the queue.
func turnsOf(sched *scheduler.Scheduler) *turns {
	for _, profile := range sched.Profiles {
		if _, gangs := preemptionsOf(profile); gangs != nil && sorts(profile) {
			line := &orderedQueue{SchedulingQueue: sched.SchedulingQueue, fails: gangs.Fails}
			sched.SchedulingQueue = line
			return &turns{pop: sched.NextEntity, line: line, gangs: gangs, now: time.Now} // all profiles sort alike
		}
	}
	return nil
}

func sorts(profile framework.Framework) bool {
	for _, plugin := range profile.ListPlugins().QueueSort.Enabled {
		if plugin.Name == coscheduling.Name {
			return true
		}
	}
	return false
}

// inTurns makes a loop take pods in turn and pay for its time, except for the time that heldBack adds. t may be nil.
func inTurns(t *turns, next nextEntity, heldBack func(nextEntity) nextEntity) nextEntity {
	if t == nil {
		return heldBack(next)
	}
	next = heldBack(t.next)
	return func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		t.charge()
		return next(logger)
	}
}

// next takes the next pod from the queue, that of the namespace whose turn it is.
func (t *turns) next(logger klog.Logger) (framework.QueuedEntityInfo, error) {
	called := t.call(logger)
	entity, err := t.pop(logger)
	var pod *corev1.Pod
	if info, ok := entity.(*framework.QueuedPodInfo); ok && err == nil {
		pod = info.Pod
	}
	if called != nil {
		if pod != called { // it is gone, or an earlier pod has arrived
			t.replace(logger, called, false)
			t.seen.take(called)
		}
		t.gangs.Call(nil)
	}
	t.last = pod
	if err == nil && entity != nil {
		t.payer, t.began = entity.GetNamespace(), t.now()
		entity.ForEachPodInfo(func(info *framework.QueuedPodInfo) bool {
			t.seen.take(info.Pod)
			return true
		})
	}
	return entity, err
}

// charge charges the last pod's namespace for its finished attempt.
func (t *turns) charge() {
	if !t.began.IsZero() {
		t.share.Charge(t.payer, t.now().Sub(t.began))
		t.began = time.Time{}
	}
}

// call selects the pod of the namespace whose turn it is, and returns its copy in the queue; nil to take the first pod of the queue.
func (t *turns) call(logger klog.Logger) *corev1.Pod {
	news := t.gangs.News()
	if began := t.now(); began.Sub(t.seen.at) < lookEach*t.seen.took {
		t.seen.add(news)
	} else {
		t.seen = lookAt(t.line.PodsInActiveQ(), t.gangs.ComesFirst)
		t.seen.at, t.seen.took = began, t.now().Sub(began)
	}
	for range mostGone {
		began := t.now()
		chosen := t.choose()
		t.seen.took += t.now().Sub(began)
		if chosen == nil {
			return nil
		}
		if called := t.replace(logger, chosen, true); called != nil {
			return called
		}
		t.seen.take(chosen)
	}
	return nil
}

// choose returns the pod to be taken next, nil for the first of the queue. It does not interrupt a gang that has begun.
func (t *turns) choose() *corev1.Pod {
	if t.last != nil && t.gangs.GoesOn(t.last) {
		return t.seen.sibling(t.last, t.gangs.Before)
	}
	return t.seen.choose(&t.share, t.gangs.Before)
}

// replace replaces a queued pod by a copy of its current version, and sorts it again, under one lock of the queue, so that the queue compares no
// values that change concurrently. It returns the copy, nil if the pod is gone. The queue takes an unknown pod for a new one, so the pod's
// deletion must not be processed in between.
func (t *turns) replace(logger klog.Logger, pod *corev1.Pod, call bool) *corev1.Pod {
	t.line.mu.Lock()
	defer t.line.mu.Unlock()
	current := t.gangs.Waiting(pod)
	if _, queued := t.line.GetPod(pod.Name, pod.Namespace, pod.Spec.SchedulingGroup); !queued || current == nil {
		return nil
	}
	copied := *current
	if call {
		t.gangs.Call(&copied)
	}
	t.line.SchedulingQueue.Update(klog.NewContext(context.Background(), logger), current, &copied)
	return &copied
}
