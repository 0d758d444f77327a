package follow

import (
	"cmp"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
)

// recordHolding records the current holding of a pod in an account; events may be older. The caller holds q.mu.
func (q *Quotas) recordHolding(a *gpuquota.Account, pod *corev1.Pod) {
	now, ok := q.livePod(pod)
	if !ok {
		delete(q.assumed, pod.UID)
		delete(q.nominees, pod.UID)
		a.RemovePod(pod.UID)
		return
	}
	if now.Spec.NodeName != "" {
		delete(q.assumed, pod.UID)
		delete(q.nominees, pod.UID)
	}
	h, ok := q.holdingOf(now)
	if !ok {
		a.RemovePod(pod.UID)
		return
	}
	a.SetHolding(h)
}

// livePod returns a pod from the informer, and false if it is gone or has ended.
func (q *Quotas) livePod(pod *corev1.Pod) (*corev1.Pod, bool) {
	object, found, err := q.pods.GetByKey(pod.Namespace + "/" + pod.Name)
	now, ok := object.(*corev1.Pod)
	if err != nil || !found || !ok || now.UID != pod.UID || gpu.HasEnded(now) {
		return nil, false
	}
	return now, true
}

// holdingOf returns what a pod holds, or what is reserved for it; false for nothing. A terminating pod holds its GPUs until it is gone.
func (q *Quotas) holdingOf(pod *corev1.Pod) (h gpuquota.Holding, holds bool) {
	name, waits := cmp.Or(pod.Spec.NodeName, q.assumed[pod.UID]), false
	if name == "" && pod.DeletionTimestamp == nil {
		name, waits = cmp.Or(q.nominees[pod.UID].node, pod.Status.NominatedNodeName), true
	}
	if name == "" || gpuquota.WholeGPUs(pod) == 0 {
		return h, false
	}
	node, err := q.nodes.Get(name)
	if err != nil {
		q.unknownNodes[name], node = true, nil
	}
	h = gpuquota.HoldingOf(pod, node)
	h.Waits = waits
	if q.unitOf != nil {
		h.Unit = cmp.Or(q.unitOf(pod), h.Unit)
	}
	return h, true
}

// Request is a request of pods of one namespace that want to start, each or all together. nil is one that no quota affects.
type Request struct {
	*Quotas
	// asks are by pool and accepted GPU types: the roles of a gang may differ in both.
	asks []ask
}

type ask struct {
	gpuquota.Ask
	over map[string]gpuquota.Excess
	// types are the accepted GPU types, nil for all. own is what these pods request, as part of the GPUs of all pods in the pool.
	types []string
	own   int64
}

// RequestFor returns the request of pods that want to start together.
func (q *Quotas) RequestFor(pods ...*corev1.Pod) *Request {
	if !q.HasAny() {
		return nil
	}
	r := &Request{Quotas: q}
	for _, pod := range pods {
		r.addPod(pod)
	}
	if len(r.asks) == 0 {
		return nil
	}
	r.sumUp()
	q.withAccount(func(a *gpuquota.Account) {
		for i := range r.asks {
			r.asks[i].over = a.ExceededQuotas(&r.asks[i].Ask)
		}
	})
	return r
}

func (r *Request) addPod(pod *corev1.Pod) {
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

// indexOf returns the index of a pod's ask, -1 for none.
func (r *Request) indexOf(pod *corev1.Pod) int {
	pool, types := gpu.PodPool(pod), acceptedBy(pod)
	return slices.IndexFunc(r.asks, func(a ask) bool { return a.Pool == pool && slices.Equal(a.types, types) })
}

// acceptedBy returns the GPU types that a pod may get, nil for all.
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

// sumUp extends each ask to all pods of its pool. In a quota of one GPU type, pods count that must get this type. For pods that accept several types,
// all pods that accept it count: they are kept from the type if it is too scarce for all.
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
			if !own.acceptsType(gpuType) {
				return 0
			}
			for j := range before {
				other := &before[j]
				if other.Pool == own.Pool && other.acceptsType(gpuType) && (len(other.types) == 1 || len(own.types) != 1) {
					sum += min(other.own, math.MaxInt64-sum)
				}
			}
			return sum
		}
	}
}

func (a *ask) acceptsType(gpuType string) bool {
	return len(a.types) == 0 || slices.Contains(a.types, gpuType)
}

// ForPod returns the request of one of the pods, and of those that accept the same types; nil for a pod without GPUs.
func (r *Request) ForPod(pod *corev1.Pod) *Request {
	if r == nil || gpuquota.WholeGPUs(pod) == 0 {
		return nil
	}
	i := r.indexOf(pod)
	if i < 0 {
		return nil
	}
	return &Request{Quotas: r.Quotas, asks: r.asks[i : i+1]}
}

// BlockingExcess returns the quota that keeps the pods off all nodes, nil for none.
func (r *Request) BlockingExcess() *gpuquota.Excess {
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

// ExcludesNode reports whether a quota keeps the pods off a node.
func (r *Request) ExcludesNode(node *corev1.Node) bool {
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

// ExcludesAny reports whether a quota keeps the pods off some nodes.
func (r *Request) ExcludesAny() bool {
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

// IsEntitled reports whether the pods stay within their guarantee, so that others may have to leave for them.
func (r *Request) IsEntitled() bool {
	return r.anyAsk(func(a *gpuquota.Account, ask *gpuquota.Ask) bool { return a.IsEntitled(ask) })
}

// FindsNominees reports whether GPUs may be reserved for others in a pool of the pods.
func (r *Request) FindsNominees() bool {
	return r.anyAsk(func(a *gpuquota.Account, ask *gpuquota.Ask) bool { return a.HasNominees(ask.Pool) })
}

// DefersTo reports whether the pods must leave another pod's reservation alone.
func (r *Request) DefersTo(to *corev1.Pod) bool {
	return r.anyAsk(func(a *gpuquota.Account, ask *gpuquota.Ask) bool { return a.MustDefer(ask, to.UID) })
}

// StandingOf returns whether quotas require or forbid that a victim leaves for these pods.
func (r *Request) StandingOf(victim *corev1.Pod) gpuquota.Standing {
	standing := gpuquota.Neutral
	r.anyAsk(func(a *gpuquota.Account, ask *gpuquota.Ask) bool {
		if of := a.StandingOf(victim.UID, ask); of != gpuquota.Neutral {
			standing = of
		}
		return standing == gpuquota.Protected
	})
	return standing
}

// IsGuaranteed reports whether the GPUs of a pod are guaranteed to other namespaces than the given one, so that the pod leaves for no pod of that
// namespace. This includes preemptors without whole GPUs, which quotas do not affect otherwise.
func (q *Quotas) IsGuaranteed(pod *corev1.Pod, from string) (is bool) {
	q.withAccount(func(a *gpuquota.Account) {
		is = a.StandingOf(pod.UID, &gpuquota.Ask{Namespace: from}) == gpuquota.Protected
	})
	return is
}

// anyAsk evaluates a predicate for each ask until one is true.
func (r *Request) anyAsk(is func(*gpuquota.Account, *gpuquota.Ask) bool) (found bool) {
	if r == nil {
		return false
	}
	r.withAccount(func(a *gpuquota.Account) {
		for i := range r.asks {
			if found = is(a, &r.asks[i].Ask); found {
				return
			}
		}
	})
	return found
}

// ShareQuota reports whether the end of a pod frees quota for a waiting one.
func (q *Quotas) ShareQuota(gone, waiting *corev1.Pod) (together bool) {
	if gpuquota.WholeGPUs(gone) == 0 {
		return false
	}
	q.withAccount(func(a *gpuquota.Account) {
		together = a.ShareQuota(waiting.Namespace, gone.Namespace, gpu.PodPool(waiting))
	})
	return together
}
