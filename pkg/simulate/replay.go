package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang"
)

// replay is a run: the waiting pods, the running pods, and the measurements.
type replay struct {
	engine  *engine
	measure measurements
	// waiting are the entries without a node, in the order in which they are tried.
	waiting []*entry
	// entries are all pods that have come, and those of the cluster.
	entries map[types.UID]*entry
	byName  map[types.NamespacedName]*entry
	events  eventQueue
	now     time.Duration
	mover   mover
}

// entry is a pod and what has become of it.
type entry struct {
	*Arrival
	// equivalence is equal for pods that fit on the same nodes.
	equivalence string
	order       int
	reasons     []string
	verdict     string
	// bound is the pod with its node, nil while it has none. A member of a gang that waits for others is held.
	bound *corev1.Pod
	held  bool
	// starts counts its placements: an end event of an earlier start is ignored.
	starts int
	// since is when it was placed last.
	since time.Duration
}

func newReplay(engine *engine, cluster Cluster, arrivals []Arrival, name string, options Options) *replay {
	r := &replay{
		engine: engine, measure: newMeasurements(cluster, name, options.Seed, podsOfArrivals(arrivals)),
		entries: map[types.UID]*entry{}, byName: map[types.NamespacedName]*entry{}, mover: newMover(options.Moves, cluster),
	}
	for i, pod := range cluster.Pods {
		there := &entry{Arrival: &Arrival{Pod: asPending(pod)}, order: i - len(cluster.Pods), bound: pod, since: longAgo}
		r.registerEntry(there)
		if at, ends := cluster.Ends[pod.UID]; ends {
			r.events.push(event{at: at, pod: there})
		}
	}
	return r
}

func podsOfArrivals(arrivals []Arrival) []*corev1.Pod {
	pods := make([]*corev1.Pod, len(arrivals))
	for i := range arrivals {
		pods[i] = arrivals[i].Pod
	}
	return pods
}

// asPending returns a pod in its state before it had a node.
func asPending(pod *corev1.Pod) *corev1.Pod {
	before := pod.DeepCopy()
	before.Spec.NodeName, before.Status = "", corev1.PodStatus{}
	delete(before.Annotations, names.AnnotationGPUDevices)
	return before
}

func (r *replay) registerEntry(e *entry) {
	r.entries[e.Pod.UID], r.byName[podKey(e.Pod)] = e, e
}

func podKey(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// handleArrival advances the time to an arrival, and tries it.
func (r *replay) handleArrival(ctx context.Context, arrival *Arrival) error {
	if err := r.advanceTo(ctx, arrival.At); err != nil {
		return err
	}
	if err := r.engine.addPendingPod(arrival.Pod); err != nil {
		return err
	}
	pod := &entry{Arrival: arrival, order: r.measure.countArrival(arrival)}
	if err := r.enqueuePod(pod); err != nil {
		return err
	}
	r.registerEntry(pod)
	if arrival.Until > 0 {
		r.events.push(event{at: arrival.Until, pod: pod, start: leaveEvent})
	}
	if err := r.tryPod(ctx, pod); err != nil {
		return err
	}
	if pod.held { // it may be the last member of its gang
		if err := r.retryPending(ctx, func(other *entry) bool { return podGang(other.Pod) == podGang(pod.Pod) }); err != nil {
			return err
		}
	}
	r.measure.sampleAfterArrival(r.now)
	return nil
}

// enqueuePod adds a pod to those without a node.
func (r *replay) enqueuePod(pod *entry) (err error) {
	if pod.equivalence == "" {
		if pod.equivalence, err = equivalenceKey(pod.Arrival); err != nil {
			return err
		}
	}
	at, found := slices.BinarySearchFunc(r.waiting, pod, compareWaiting)
	if !found {
		r.waiting = slices.Insert(r.waiting, at, pod)
	}
	return nil
}

// equivalenceKey is equal for pods that the scheduler cannot distinguish except by name, and by the name of their gang.
func equivalenceKey(arrival *Arrival) (string, error) {
	pod, labels, members := arrival.Pod, arrival.Pod.Labels, int32(0)
	if arrival.Group != nil {
		members = arrival.Group.Spec.MinMember
		labels = gang.WithoutGroup(labels)
	}
	text, err := json.Marshal([]any{&pod.Spec, labels, pod.Annotations, members})
	if err != nil {
		return "", fmt.Errorf("reading pod %s: %w", klog.KObj(pod), err)
	}
	return string(text), nil
}

// compareWaiting orders by priority, then by arrival.
func compareWaiting(a, b *entry) int {
	return cmp.Or(cmp.Compare(schedulinghelper.PodPriority(b.Pod), schedulinghelper.PodPriority(a.Pod)), cmp.Compare(a.order, b.order))
}

// tryPod runs a scheduling attempt for a waiting pod, and a second one if others were evicted for it.
func (r *replay) tryPod(ctx context.Context, pod *entry) error {
	out, err := r.engine.attemptPod(ctx, pod.Pod)
	if err != nil {
		return fmt.Errorf("placing pod %s: %w", klog.KObj(pod.Pod), err)
	}
	pod.held, pod.reasons, pod.verdict = out.held, out.reasons, out.verdict
	if err := r.applyOutcome(out); err != nil || out.nominated == "" {
		return err
	}
	for _, name := range out.evicted {
		if err := r.evictPod(ctx, r.byName[name], pod); err != nil {
			return err
		}
	}
	return r.tryOnNode(ctx, pod, out.nominated)
}

// tryOnNode runs an attempt for a pod for which others have made room on a node.
func (r *replay) tryOnNode(ctx context.Context, pod *entry, node string) error {
	nominated := pod.Pod.DeepCopy()
	nominated.Status.NominatedNodeName = node
	out, err := r.engine.attemptPod(ctx, nominated)
	if err != nil {
		return fmt.Errorf("placing pod %s, for which others were evicted: %w", klog.KObj(pod.Pod), err)
	}
	pod.held, pod.reasons, pod.verdict = out.held, out.reasons, out.verdict
	return r.applyOutcome(out)
}

// applyOutcome records which pods got a node, and which released a place.
func (r *replay) applyOutcome(out outcome) error {
	for _, bound := range out.bound {
		pod := r.entries[bound.UID]
		pod.bound, pod.held = bound, false
		pod.starts++
		pod.since = r.now
		r.measure.countPlacement(pod, bound, r.now)
		if pod.Lifetime > 0 {
			r.events.push(event{at: r.now + pod.Lifetime, pod: pod, start: pod.starts})
		}
	}
	for _, uid := range out.released {
		r.entries[uid].held = false
	}
	r.waiting = slices.DeleteFunc(r.waiting, func(pod *entry) bool { return pod.bound != nil })
	return nil
}

// evictPod releases a pod's node. Its controller creates another, which waits from now on.
func (r *replay) evictPod(ctx context.Context, victim, preemptor *entry) error {
	if victim == nil || victim.bound == nil {
		return nil // it was never there, or has ended
	}
	if err := r.endPod(ctx, victim); err != nil {
		return err
	}
	r.measure.recordEviction(victim.Pod, preemptor.Pod, r.now)
	if err := r.engine.addPendingPod(victim.Pod); err != nil {
		return err
	}
	return r.enqueuePod(victim)
}

// endPod takes a pod away that runs.
func (r *replay) endPod(ctx context.Context, pod *entry) error {
	if err := r.engine.removeBoundPod(ctx, pod.bound); err != nil {
		return err
	}
	r.measure.countEnd(pod.bound)
	pod.bound = nil
	return nil
}

// handleEndEvent ends a pod, unless the event is outdated.
func (r *replay) handleEndEvent(ctx context.Context, ended event) error {
	pod := ended.pod
	switch {
	case pod.bound != nil && (ended.start == pod.starts || ended.start == leaveEvent):
		return r.endPod(ctx, pod)
	case pod.bound == nil && ended.start == leaveEvent:
		r.waiting = slices.DeleteFunc(r.waiting, func(other *entry) bool { return other == pod })
		r.measure.countWithdrawal(pod.Arrival)
		return r.engine.removePendingPod(pod.Pod)
	}
	return nil
}

// advanceTo lets pods end until a time, and tries the waiting ones after each moment at which some did.
func (r *replay) advanceTo(ctx context.Context, until time.Duration) error {
	for len(r.events) > 0 && r.events[0].at <= until {
		r.setTime(r.events[0].at)
		for len(r.events) > 0 && r.events[0].at == r.now {
			if err := r.handleEndEvent(ctx, r.events.pop()); err != nil {
				return err
			}
		}
		if err := r.retryPending(ctx, func(*entry) bool { return true }); err != nil {
			return err
		}
		if err := r.planMoves(ctx, false); err != nil {
			return err
		}
		r.measure.recordSample(r.now)
	}
	r.setTime(max(r.now, until))
	return nil
}

// setTime sets the clocks.
func (r *replay) setTime(until time.Duration) {
	if !r.engine.now.IsZero() {
		r.engine.now = r.engine.now.Add(until - r.now)
	}
	r.now = until
}

// retryPending tries the selected waiting pods. When a pod fits nowhere, equal ones after it are skipped. Members of gangs that still wait for others at the
// end release their places.
func (r *replay) retryPending(ctx context.Context, meant func(*entry) bool) error {
	refused := map[string]bool{}
	for _, pod := range slices.Clone(r.waiting) {
		if pod.bound != nil || pod.held || refused[pod.equivalence] || !meant(pod) {
			continue
		}
		if err := r.tryPod(ctx, pod); err != nil {
			return err
		}
		refused[pod.equivalence] = pod.bound == nil && !pod.held
	}
	out, err := r.engine.releaseWaiting(ctx)
	if err != nil {
		return err
	}
	return r.applyOutcome(out)
}

// drainEvents advances the time until no more pods end.
func (r *replay) drainEvents(ctx context.Context) error {
	for len(r.events) > 0 && len(r.waiting) > 0 {
		if err := r.advanceTo(ctx, r.events[0].at); err != nil {
			return err
		}
	}
	return nil
}

func (r *replay) finishReplay() *Result { return r.measure.buildResult(r.waiting) }
