package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// replay is a run: the waiting pods, the running pods, and the measurements.
type replay struct {
	engine  *engine
	measure measure
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
	// alike is equal for pods that fit on the same nodes.
	alike   string
	order   int
	reasons []string
	verdict string
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
		engine: engine, measure: newMeasure(cluster, name, options.Seed, podsOfArrivals(arrivals)),
		entries: map[types.UID]*entry{}, byName: map[types.NamespacedName]*entry{}, mover: newMover(options.Moves, cluster),
	}
	for i, pod := range cluster.Pods {
		there := &entry{Arrival: &Arrival{Pod: waitingAgain(pod)}, order: i - len(cluster.Pods), bound: pod, since: longAgo}
		r.know(there)
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

// waitingAgain returns a pod in its state before it had a node.
func waitingAgain(pod *corev1.Pod) *corev1.Pod {
	before := pod.DeepCopy()
	before.Spec.NodeName, before.Status = "", corev1.PodStatus{}
	delete(before.Annotations, names.AnnotationGPUDevices)
	return before
}

func (r *replay) know(e *entry) {
	r.entries[e.Pod.UID], r.byName[nameOf(e.Pod)] = e, e
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// arrive advances the time to an arrival, and tries it.
func (r *replay) arrive(ctx context.Context, arrival *Arrival) error {
	if err := r.advance(ctx, arrival.At); err != nil {
		return err
	}
	if err := r.engine.arrive(arrival.Pod); err != nil {
		return err
	}
	pod := &entry{Arrival: arrival, order: r.measure.arrived(arrival)}
	if err := r.wait(pod); err != nil {
		return err
	}
	r.know(pod)
	if arrival.Until > 0 {
		r.events.push(event{at: arrival.Until, pod: pod, start: leaves})
	}
	if err := r.try(ctx, pod); err != nil {
		return err
	}
	if pod.held { // it may be the last member of its gang
		if err := r.retry(ctx, func(other *entry) bool { return gangOf(other.Pod) == gangOf(pod.Pod) }); err != nil {
			return err
		}
	}
	r.measure.sample(r.now)
	return nil
}

// wait adds a pod to those without a node.
func (r *replay) wait(pod *entry) (err error) {
	if pod.alike == "" {
		if pod.alike, err = alikeness(pod.Arrival); err != nil {
			return err
		}
	}
	at, found := slices.BinarySearchFunc(r.waiting, pod, compareWaiting)
	if !found {
		r.waiting = slices.Insert(r.waiting, at, pod)
	}
	return nil
}

// alikeness is equal for pods that the scheduler cannot distinguish except by name, and by the name of their gang.
func alikeness(arrival *Arrival) (string, error) {
	pod, labels, members := arrival.Pod, maps.Clone(arrival.Pod.Labels), int32(0)
	if arrival.Group != nil {
		members = arrival.Group.Spec.MinMember
		delete(labels, names.LabelPodGroup)
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

// try runs a scheduling attempt for a waiting pod, and a second one if others were evicted for it.
func (r *replay) try(ctx context.Context, pod *entry) error {
	out, err := r.engine.try(ctx, pod.Pod)
	if err != nil {
		return fmt.Errorf("placing pod %s: %w", klog.KObj(pod.Pod), err)
	}
	pod.held, pod.reasons, pod.verdict = out.held, out.reasons, out.verdict
	if err := r.apply(out); err != nil || out.nominated == "" {
		return err
	}
	for _, name := range out.evicted {
		if err := r.evict(ctx, r.byName[name], pod); err != nil {
			return err
		}
	}
	return r.tryOn(ctx, pod, out.nominated)
}

// tryOn runs an attempt for a pod for which others have made room on a node.
func (r *replay) tryOn(ctx context.Context, pod *entry, node string) error {
	nominated := pod.Pod.DeepCopy()
	nominated.Status.NominatedNodeName = node
	out, err := r.engine.try(ctx, nominated)
	if err != nil {
		return fmt.Errorf("placing pod %s, for which others were evicted: %w", klog.KObj(pod.Pod), err)
	}
	pod.held, pod.reasons, pod.verdict = out.held, out.reasons, out.verdict
	return r.apply(out)
}

// apply records which pods got a node, and which released a place.
func (r *replay) apply(out outcome) error {
	for _, bound := range out.bound {
		pod := r.entries[bound.UID]
		pod.bound, pod.held = bound, false
		pod.starts++
		pod.since = r.now
		r.measure.placed(pod, bound, r.now)
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

// evict releases a pod's node. Its controller creates another, which waits from now on.
func (r *replay) evict(ctx context.Context, victim, preemptor *entry) error {
	if victim == nil || victim.bound == nil {
		return nil // it was never there, or has ended
	}
	if err := r.end(ctx, victim); err != nil {
		return err
	}
	r.measure.evicted(victim.Pod, preemptor.Pod, r.now)
	if err := r.engine.arrive(victim.Pod); err != nil {
		return err
	}
	return r.wait(victim)
}

// end takes a pod away that runs.
func (r *replay) end(ctx context.Context, pod *entry) error {
	if err := r.engine.remove(ctx, pod.bound); err != nil {
		return err
	}
	r.measure.ended(pod.bound)
	pod.bound = nil
	return nil
}

// over ends a pod, unless the event is outdated.
func (r *replay) over(ctx context.Context, ended event) error {
	pod := ended.pod
	switch {
	case pod.bound != nil && (ended.start == pod.starts || ended.start == leaves):
		return r.end(ctx, pod)
	case pod.bound == nil && ended.start == leaves:
		r.waiting = slices.DeleteFunc(r.waiting, func(other *entry) bool { return other == pod })
		r.measure.withdrawn(pod.Arrival)
		return r.engine.withdraw(pod.Pod)
	}
	return nil
}

// advance lets pods end until a time, and tries the waiting ones after each moment at which some did.
func (r *replay) advance(ctx context.Context, until time.Duration) error {
	for len(r.events) > 0 && r.events[0].at <= until {
		r.passes(r.events[0].at)
		for len(r.events) > 0 && r.events[0].at == r.now {
			if err := r.over(ctx, r.events.pop()); err != nil {
				return err
			}
		}
		if err := r.retry(ctx, func(*entry) bool { return true }); err != nil {
			return err
		}
		if err := r.advise(ctx, false); err != nil {
			return err
		}
		r.measure.note(r.now)
	}
	r.passes(max(r.now, until))
	return nil
}

// passes sets the clocks.
func (r *replay) passes(until time.Duration) {
	if !r.engine.now.IsZero() {
		r.engine.now = r.engine.now.Add(until - r.now)
	}
	r.now = until
}

// retry tries the selected waiting pods. When a pod fits nowhere, equal ones after it are skipped. Members of gangs that still wait for others at the
// end release their places.
func (r *replay) retry(ctx context.Context, meant func(*entry) bool) error {
	refused := map[string]bool{}
	for _, pod := range slices.Clone(r.waiting) {
		if pod.bound != nil || pod.held || refused[pod.alike] || !meant(pod) {
			continue
		}
		if err := r.try(ctx, pod); err != nil {
			return err
		}
		refused[pod.alike] = pod.bound == nil && !pod.held
	}
	out, err := r.engine.release(ctx)
	if err != nil {
		return err
	}
	return r.apply(out)
}

// drain advances the time until no more pods end.
func (r *replay) drain(ctx context.Context) error {
	for len(r.events) > 0 && len(r.waiting) > 0 {
		if err := r.advance(ctx, r.events[0].at); err != nil {
			return err
		}
	}
	return nil
}

func (r *replay) finish() *Result { return r.measure.finish(r.waiting) }
