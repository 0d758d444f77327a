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

// snapshotCostFactor is how long a queue snapshot is valid, as a multiple of the time that it took: at most a twentieth of the loop's time goes into
// snapshots, however many pods are queued.
const snapshotCostFactor = 20

// maxGonePods is how many departed pods are skipped one after the other.
const maxGonePods = 8

// fairQueue let namespaces take turns in the queue when pods of equal priority wait: each pays for the time of its attempts. Otherwise thousands of
// pods of one namespace would make all others wait until each of them was tried. Within a namespace the order is that of the queue, and so is
// the order of all pods while no namespace has used more than the others. Only the loop uses them.
type fairQueue struct {
	popEntity    nextEntity
	orderedQueue *orderedQueue
	gangs        *coscheduling.Plugin
	now          func() time.Time
	share        fair.Turns
	snapshot     queueSnapshot
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
	// onFailure is called for a pod whose attempt failed.
	onFailure func(*corev1.Pod)
}

// AddUnschedulablePodIfNotPresent implements queue.SchedulingQueue.
func (q *orderedQueue) AddUnschedulablePodIfNotPresent(logger klog.Logger, info *framework.QueuedPodInfo, cycle int64) error {
	q.onFailure(info.Pod)
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

// newFairQueue returns the turns of a scheduler, nil if its pods are not sorted by Coscheduling. It is called before anything else wraps the queue.
func newFairQueue(sched *scheduler.Scheduler) *fairQueue {
	for _, profile := range sched.Profiles {
		if _, gangs := preemptionsOf(profile); gangs != nil && sortsByCoscheduling(profile) {
			line := &orderedQueue{SchedulingQueue: sched.SchedulingQueue, onFailure: gangs.RecordFailure}
			sched.SchedulingQueue = line
			return &fairQueue{popEntity: sched.NextEntity, orderedQueue: line, gangs: gangs, now: time.Now} // all profiles sort alike
		}
	}
	return nil
}

func sortsByCoscheduling(profile framework.Framework) bool {
	for _, plugin := range profile.ListPlugins().QueueSort.Enabled {
		if plugin.Name == coscheduling.Name {
			return true
		}
	}
	return false
}

// takeInTurns makes a loop take pods in turn and pay for its time, except for the time that heldBack adds. t may be nil.
func takeInTurns(t *fairQueue, next nextEntity, heldBack func(nextEntity) nextEntity) nextEntity {
	if t == nil {
		return heldBack(next)
	}
	next = heldBack(t.takeNext)
	return func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		t.chargeNamespace()
		return next(logger)
	}
}

// takeNext takes the next pod from the queue, that of the namespace whose turn it is.
func (t *fairQueue) takeNext(logger klog.Logger) (framework.QueuedEntityInfo, error) {
	called := t.callNext(logger)
	entity, err := t.popEntity(logger)
	var pod *corev1.Pod
	if info, ok := entity.(*framework.QueuedPodInfo); ok && err == nil {
		pod = info.Pod
	}
	if called != nil {
		if pod != called { // it is gone, or an earlier pod has arrived
			t.requeuePod(logger, called, false)
			t.snapshot.markTaken(called)
		}
		t.gangs.CallNext(nil)
	}
	t.last = pod
	if err == nil && entity != nil {
		t.payer, t.began = entity.GetNamespace(), t.now()
		entity.ForEachPodInfo(func(info *framework.QueuedPodInfo) bool {
			t.snapshot.markTaken(info.Pod)
			return true
		})
	}
	return entity, err
}

// chargeNamespace charges the last pod's namespace for its finished attempt.
func (t *fairQueue) chargeNamespace() {
	if !t.began.IsZero() {
		t.share.Charge(t.payer, t.now().Sub(t.began))
		t.began = time.Time{}
	}
}

// callNext selects the pod of the namespace whose turn it is, and returns its copy in the queue; nil to take the first pod of the queue.
func (t *fairQueue) callNext(logger klog.Logger) *corev1.Pod {
	news := t.gangs.TakeQueued()
	if began := t.now(); began.Sub(t.snapshot.at) < snapshotCostFactor*t.snapshot.duration {
		t.snapshot.addPods(news)
	} else {
		t.snapshot = snapshotQueue(t.orderedQueue.PodsInActiveQ(), t.gangs.HasPrecedence)
		t.snapshot.at, t.snapshot.duration = began, t.now().Sub(began)
	}
	for range maxGonePods {
		began := t.now()
		chosen := t.choosePod()
		t.snapshot.duration += t.now().Sub(began)
		if chosen == nil {
			return nil
		}
		if called := t.requeuePod(logger, chosen, true); called != nil {
			return called
		}
		t.snapshot.markTaken(chosen)
	}
	return nil
}

// choosePod returns the pod to be taken next, nil for the first of the queue. It does not interrupt a gang that has begun.
func (t *fairQueue) choosePod() *corev1.Pod {
	if t.last != nil && t.gangs.HasBegun(t.last) {
		return t.snapshot.nextSibling(t.last, t.gangs.SortsBefore)
	}
	return t.snapshot.chooseNext(&t.share, t.gangs.SortsBefore)
}

// requeuePod replaces a queued pod by a copy of its current version, and sorts it again, under one lock of the queue, so that the queue compares no
// values that change concurrently. It returns the copy, nil if the pod is gone. The queue takes an unknown pod for a new one, so the pod's
// deletion must not be processed in between.
func (t *fairQueue) requeuePod(logger klog.Logger, pod *corev1.Pod, call bool) *corev1.Pod {
	t.orderedQueue.mu.Lock()
	defer t.orderedQueue.mu.Unlock()
	current := t.gangs.PendingPod(pod)
	if _, queued := t.orderedQueue.GetPod(pod.Name, pod.Namespace, pod.Spec.SchedulingGroup); !queued || current == nil {
		return nil
	}
	copied := *current
	if call {
		t.gangs.CallNext(&copied)
	}
	t.orderedQueue.SchedulingQueue.Update(klog.NewContext(context.Background(), logger), current, &copied)
	return &copied
}
