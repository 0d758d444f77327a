package follow

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
)

// note puts what a pod holds in an account, as it is now: events may be older. q.mu is held.
func (q *Quotas) note(a *gpuquota.Account, pod *corev1.Pod) {
	now, ok := q.there(pod)
	if !ok {
		delete(q.chosen, pod.UID)
		delete(q.kept, pod.UID)
		a.Drop(pod.UID)
		return
	}
	if now.Spec.NodeName != "" {
		delete(q.chosen, pod.UID)
		delete(q.kept, pod.UID)
	}
	h, ok := q.holdingOf(now)
	if !ok {
		a.Drop(pod.UID)
		return
	}
	a.Put(h)
}

// there returns a pod as the informer has it, and false for one that is gone, or has ended.
func (q *Quotas) there(pod *corev1.Pod) (*corev1.Pod, bool) {
	object, found, err := q.pods.GetByKey(pod.Namespace + "/" + pod.Name)
	now, ok := object.(*corev1.Pod)
	if err != nil || !found || !ok || now.UID != pod.UID || gpu.HasEnded(now) {
		return nil, false
	}
	return now, true
}

// holdingOf is what a pod holds, or what is kept for it; false is nothing. One that is being deleted holds its GPUs until it is gone.
func (q *Quotas) holdingOf(pod *corev1.Pod) (h gpuquota.Holding, holds bool) {
	name, waits := cmp.Or(pod.Spec.NodeName, q.chosen[pod.UID]), false
	if name == "" && pod.DeletionTimestamp == nil {
		name, waits = cmp.Or(q.kept[pod.UID].node, pod.Status.NominatedNodeName), true
	}
	if name == "" || gpuquota.WholeGPUs(pod) == 0 {
		return h, false
	}
	node, err := q.nodes.Get(name)
	if err != nil {
		q.strange[name], node = true, nil
	}
	h = gpuquota.HoldingOf(pod, node)
	h.Waits = waits
	if q.unitOf != nil {
		h.Unit = cmp.Or(q.unitOf(pod), h.Unit)
	}
	return h, true
}

// Request is pods of one namespace that want to start, each or all together. nil is one that quotas say nothing of.
type Request struct {
	*Quotas
	// asks are by pool and by the GPU types that are accepted: the roles of a gang may differ in both.
	asks []ask
}

type ask struct {
	gpuquota.Ask
	over map[string]gpuquota.Excess
	// types are those that the pods accept, nil for all, and own what they ask for, of the GPUs that all pods of the pool ask for.
	types []string
	own   int64
}

// Of returns what quotas say to pods that want to start together.
func (q *Quotas) Of(pods ...*corev1.Pod) *Request {
	if !q.Any() {
		return nil
	}
	r := &Request{Quotas: q}
	for _, pod := range pods {
		r.add(pod)
	}
	if len(r.asks) == 0 {
		return nil
	}
	r.sumUp()
	q.with(func(a *gpuquota.Account) {
		for i := range r.asks {
			r.asks[i].over = a.Over(&r.asks[i].Ask)
		}
	})
	return r
}

func (r *Request) add(pod *corev1.Pod) {
	gpus := gpuquota.WholeGPUs(pod)
	if gpus == 0 {
		return
	}
	i := r.indexOf(pod)
	if i < 0 {
		i, r.asks = len(r.asks), append(r.asks, ask{Ask: gpuquota.Ask{Namespace: pod.Namespace, Pool: gpu.PodPool(pod)}, types: acceptedBy(pod)})
	}
	known := &r.asks[i]
	known.own += min(gpus, math.MaxInt64-known.own)
	known.Pods = append(known.Pods, pod.UID)
}

// indexOf is the number of the ask that a pod is part of, -1 for none.
func (r *Request) indexOf(pod *corev1.Pod) int {
	pool, types := gpu.PodPool(pod), acceptedBy(pod)
	return slices.IndexFunc(r.asks, func(a ask) bool { return a.Pool == pool && slices.Equal(a.types, types) })
}

// acceptedBy are the GPU types that a pod may get, nil for all.
func acceptedBy(pod *corev1.Pod) []string {
	types, err := gpu.PodTypes(pod)
	if err != nil {
		return nil
	}
	accepted := types.Accepted
	for _, selected := range types.Selected {
		if len(accepted) == 0 {
			accepted = selected
			continue
		}
		accepted = slices.DeleteFunc(slices.Clone(accepted), func(name string) bool { return !slices.Contains(selected, name) })
	}
	return accepted
}

// sumUp has each ask be for all pods of its pool. In a quota of one GPU type those count that have to get it, and with pods that may get it
// or another all that may: those are kept from it where it is too little for all.
func (r *Request) sumUp() {
	before := slices.Clone(r.asks)
	for i := range r.asks {
		own := &r.asks[i]
		own.GPUs, own.Pods = 0, nil
		for _, other := range before {
			if other.Pool == own.Pool {
				own.GPUs += min(other.own, math.MaxInt64-own.GPUs)
				own.Pods = append(own.Pods, other.Pods...)
			}
		}
		if len(before) == 1 {
			continue
		}
		own.ByType = func(gpuType string) (sum int64) {
			if !own.accepts(gpuType) {
				return 0
			}
			for j := range before {
				other := &before[j]
				if other.Pool == own.Pool && other.accepts(gpuType) && (len(other.types) == 1 || len(own.types) != 1) {
					sum += min(other.own, math.MaxInt64-sum)
				}
			}
			return sum
		}
	}
}

func (a *ask) accepts(gpuType string) bool {
	return len(a.types) == 0 || slices.Contains(a.types, gpuType)
}

// For is what quotas say to one of the pods, and to those that accept the same; nil for one without GPUs.
func (r *Request) For(pod *corev1.Pod) *Request {
	if r == nil || gpuquota.WholeGPUs(pod) == 0 {
		return nil
	}
	i := r.indexOf(pod)
	if i < 0 {
		return nil
	}
	return &Request{Quotas: r.Quotas, asks: r.asks[i : i+1]}
}

// Over returns the quota that keeps the pods from all nodes, nil where none does.
func (r *Request) Over() *gpuquota.Excess {
	if r == nil {
		return nil
	}
	for i := range r.asks {
		if excess := gpuquota.ExcessFor(r.asks[i].over, r.asks[i].types); excess != nil {
			return excess
		}
	}
	return nil
}

// Shuts reports whether a quota keeps the pods from a node.
func (r *Request) Shuts(node *corev1.Node) bool {
	if r == nil {
		return false
	}
	for i := range r.asks {
		if len(r.asks[i].over) == 0 {
			continue
		}
		at := gpuquota.PlaceOf(nil, node)
		_, ofPool := r.asks[i].over[""]
		_, ofType := r.asks[i].over[at.Type]
		if at.Pool == r.asks[i].Pool && (ofPool || ofType) {
			return true
		}
	}
	return false
}

// ShutsAny reports whether a quota keeps the pods from some nodes.
func (r *Request) ShutsAny() bool {
	if r == nil {
		return false
	}
	for i := range r.asks {
		if len(r.asks[i].over) > 0 {
			return true
		}
	}
	return false
}

// Entitled reports whether the pods would have no more than they are guaranteed, so that others may have to leave for them.
func (r *Request) Entitled() bool {
	return r.any(func(a *gpuquota.Account, ask *gpuquota.Ask) bool { return a.Entitled(ask) })
}

// FindsKept reports whether GPUs may be kept for others in a pool of the pods.
func (r *Request) FindsKept() bool {
	return r.any(func(a *gpuquota.Account, ask *gpuquota.Ask) bool { return a.Waiting(ask.Pool) })
}

// Defers reports whether the pods leave alone what is kept for another.
func (r *Request) Defers(to *corev1.Pod) bool {
	return r.any(func(a *gpuquota.Account, ask *gpuquota.Ask) bool { return a.Defers(ask, to.UID) })
}

// Standing is what quotas say of whether a pod leaves for these.
func (r *Request) Standing(victim *corev1.Pod) gpuquota.Standing {
	standing := gpuquota.Neutral
	r.any(func(a *gpuquota.Account, ask *gpuquota.Ask) bool {
		if of := a.Standing(victim.UID, ask); of != gpuquota.Neutral {
			standing = of
		}
		return standing == gpuquota.Protected
	})
	return standing
}

// Guaranteed reports whether a pod is within what is guaranteed to others than a namespace, so that it leaves for nobody of that: also not for
// who wants no whole GPUs, of whom quotas say nothing else.
func (q *Quotas) Guaranteed(pod *corev1.Pod, from string) (is bool) {
	q.with(func(a *gpuquota.Account) {
		is = a.Standing(pod.UID, &gpuquota.Ask{Namespace: from}) == gpuquota.Protected
	})
	return is
}

// any asks the account for each pool.
func (r *Request) any(is func(*gpuquota.Account, *gpuquota.Ask) bool) (found bool) {
	if r == nil {
		return false
	}
	r.with(func(a *gpuquota.Account) {
		for i := range r.asks {
			if found = is(a, &r.asks[i].Ask); found {
				return
			}
		}
	})
	return found
}

// Together reports whether a pod that has gone leaves more of a quota to another one.
func (q *Quotas) Together(gone, waiting *corev1.Pod) (together bool) {
	if gpuquota.WholeGPUs(gone) == 0 {
		return false
	}
	q.with(func(a *gpuquota.Account) {
		together = a.Together(waiting.Namespace, gone.Namespace, gpu.PodPool(waiting))
	})
	return together
}
