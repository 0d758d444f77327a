package simulate

import (
	"cmp"
	"container/heap"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// replay is a run: what waits, what runs, and what has been measured.
type replay struct {
	engine  *engine
	measure measure
	// waiting are the arrivals that fit nowhere yet, in the order in which they are tried.
	waiting []*waiting
	ending  endings
	now     time.Duration
}

// waiting is an arrival that has no node yet.
type waiting struct {
	*Arrival
	// alike is equal for pods that fit on the same nodes.
	alike   string
	order   int
	reasons []string
}

func newReplay(engine *engine, cluster Cluster, name string, options Options) *replay {
	return &replay{engine: engine, measure: newMeasure(cluster, name, options.Seed)}
}

// arrive lets time pass until an arrival comes, and gives it its turn.
func (r *replay) arrive(ctx context.Context, arrival *Arrival) error {
	if err := r.advance(ctx, arrival.At); err != nil {
		return err
	}
	alike, err := alikeness(arrival.Pod)
	if err != nil {
		return err
	}
	if err := r.engine.arrive(arrival.Pod); err != nil {
		return err
	}
	pod := &waiting{Arrival: arrival, alike: alike, order: r.measure.arrived(arrival)}
	placed, err := r.try(ctx, pod)
	if err != nil {
		return err
	}
	if !placed {
		at, _ := slices.BinarySearchFunc(r.waiting, pod, compareWaiting)
		r.waiting = slices.Insert(r.waiting, at, pod)
	}
	r.measure.sample()
	return nil
}

// alikeness is equal for pods that the scheduler cannot tell apart but by name.
func alikeness(pod *corev1.Pod) (string, error) {
	text, err := json.Marshal([]any{&pod.Spec, pod.Labels, pod.Annotations})
	if err != nil {
		return "", fmt.Errorf("reading pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return string(text), nil
}

// compareWaiting orders by priority, then by arrival.
func compareWaiting(a, b *waiting) int {
	return cmp.Or(cmp.Compare(priority(b.Pod), priority(a.Pod)), cmp.Compare(a.order, b.order))
}

func priority(pod *corev1.Pod) int32 { return ptr.Deref(pod.Spec.Priority, 0) }

// try gives a pod one scheduling cycle.
func (r *replay) try(ctx context.Context, pod *waiting) (bool, error) {
	bound, reasons, err := r.engine.place(ctx, pod.Pod)
	if err != nil {
		return false, fmt.Errorf("placing pod %s/%s: %w", pod.Pod.Namespace, pod.Pod.Name, err)
	}
	if bound == nil {
		pod.reasons = reasons
		return false, nil
	}
	r.measure.placed(pod.Arrival, bound, r.now)
	if pod.Lifetime > 0 {
		heap.Push(&r.ending, ending{at: r.now + pod.Lifetime, order: pod.order, pod: bound})
	}
	return true, nil
}

// advance lets pods end until a time, and those that wait have their turn after each moment at which some did.
func (r *replay) advance(ctx context.Context, until time.Duration) error {
	for len(r.ending) > 0 && r.ending[0].at <= until {
		r.now = r.ending[0].at
		for len(r.ending) > 0 && r.ending[0].at == r.now {
			ended := heap.Pop(&r.ending).(ending)
			if err := r.engine.remove(ctx, ended.pod); err != nil {
				return err
			}
			r.measure.ended(ended.pod)
		}
		if err := r.retry(ctx); err != nil {
			return err
		}
	}
	r.now = max(r.now, until)
	return nil
}

// retry gives all that wait a turn. When a pod fits nowhere, those after it that are alike are not tried.
func (r *replay) retry(ctx context.Context) error {
	refused := map[string]bool{}
	var left []*waiting
	for _, pod := range r.waiting {
		placed := false
		if !refused[pod.alike] {
			var err error
			if placed, err = r.try(ctx, pod); err != nil {
				return err
			}
		}
		if !placed {
			refused[pod.alike] = true
			left = append(left, pod)
		}
	}
	r.waiting = left
	return nil
}

// drain lets time pass until nothing ends any more.
func (r *replay) drain(ctx context.Context) error {
	for len(r.ending) > 0 && len(r.waiting) > 0 {
		if err := r.advance(ctx, r.ending[0].at); err != nil {
			return err
		}
	}
	return nil
}

func (r *replay) finish() *Result { return r.measure.finish(r.waiting) }

// ending is a pod and when it ends.
type ending struct {
	at    time.Duration
	order int
	pod   *corev1.Pod
}

// endings is a heap of pods, the one that ends first on top.
type endings []ending

func (e endings) Len() int { return len(e) }
func (e endings) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].order, e[j].order)) < 0
}
func (e endings) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *endings) Push(x any) { *e = append(*e, x.(ending)) }

// Pop implements heap.Interface.
func (e *endings) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}
