package queue

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// underQuotas notes what GPUQuotas say to entries by what is in use now, counted here or by gpu-controller: whose namespace may have no
// more waits for that and not for nodes, and for whom others leave that borrow.
func underQuotas(entries []Entry, objects *snapshot.Snapshot) {
	if len(objects.GPUQuotas) == 0 {
		return
	}
	quotas := inventory.BuildGPUQuotas(objects)
	for i := range entries {
		if entry := &entries[i]; !entry.Never && entry.Cause == "" {
			entry.underQuotas(quotas)
		}
	}
}

func (e *Entry) underQuotas(quotas []inventory.GPUQuota) {
	ask, accepted := e.ask()
	for i := range quotas {
		q := &quotas[i]
		if ask.GPUs == 0 || !e.isUnder(q) {
			continue
		}
		over := q.Max != nil && ask.GPUs > *q.Max-*q.Used
		switch {
		case over && onlyOf(q.GPUType, accepted):
			e.over(q.Name, *q.Used, *q.Max, ask.GPUs)
		case q.GPUType == "" || len(accepted) == 0 || slices.Contains(accepted, q.GPUType):
			e.Reclaims = e.Cause == "" && (e.Reclaims || ask.GPUs <= q.Min-*q.Used && *q.Lent > 0)
		}
	}
}

// isUnder reports whether a quota counts the GPUs of an entry, and how many are in use is known.
func (e *Entry) isUnder(q *inventory.GPUQuota) bool {
	return q.Used != nil && q.Pool == e.Pool && slices.Contains(q.Namespaces, e.Namespace)
}

// onlyOf reports whether who accepts these types gets none but of a quota's, "" for all.
func onlyOf(quota string, accepted []string) bool {
	return quota == "" || len(accepted) == 1 && accepted[0] == quota
}

// ask is what an entry asks of quotas at once, and the GPU types that it accepts: all of a gang, or one pod of those that start one by one.
func (e *Entry) ask() (gpuquota.Ask, []string) {
	out := gpuquota.Ask{Namespace: e.Namespace, Pool: e.Pool}
	var accepted []string
	for i, request := range e.wish.requests[min(e.wish.placed, len(e.wish.requests)):] {
		if i > 0 && !e.wish.together() {
			break
		}
		out.GPUs += gpuquota.WholeGPUs(request.Pod)
		out.Pods = append(out.Pods, request.Pod.UID)
		if types, err := gpu.PodTypes(request.Pod); err == nil {
			accepted = types.Accepted
		}
	}
	return out, accepted
}

// over notes that a quota keeps an entry waiting, whatever is free on nodes.
func (e *Entry) over(quota string, used, most, asked int64) {
	if asked > most {
		e.Never = true
		e.block(diagnosis.Finding{Cause: reason.GPUQuotaReached, Says: phrase.Of(
			"the namespace may have %d GPUs, and the job asks for %d (GPUQuota %s)", most, asked, quota)}.Worded())
		return
	}
	e.block(diagnosis.Finding{Cause: reason.GPUQuotaReached, Says: phrase.Of(
		"%d of %d GPUs that the namespace may have are in use, and the job asks for %d (GPUQuota %s)", used, most, asked, quota)}.Worded())
}

// shares are the GPUQuotas of a pool as its line is played, nil for none.
type shares struct {
	account *gpuquota.Account
	nodes   map[string]*corev1.Node
}

func sharesOf(objects *snapshot.Snapshot, pool *pool) *shares {
	var quotas []gpuquota.Quota
	for i := range objects.GPUQuotas {
		if objects.GPUQuotas[i].Spec.Pool == pool.name {
			quotas = append(quotas, gpuquota.Of(&objects.GPUQuotas[i]))
		}
	}
	if len(quotas) == 0 {
		return nil
	}
	out := &shares{account: gpuquota.NewAccount(quotas), nodes: make(map[string]*corev1.Node, len(pool.nodes))}
	for i := range pool.nodes {
		out.nodes[pool.nodes[i].Name] = &pool.nodes[i]
	}
	for i := range objects.Pods {
		if node := out.nodes[objects.Pods[i].Spec.NodeName]; node != nil { // most are on nodes of other pools
			out.account.PutOn(node, &objects.Pods[i])
		}
	}
	return out
}

// blocks reports whether a quota keeps an entry waiting with those before it that have started by then.
func (s *shares) blocks(entry *Entry) bool {
	if s == nil {
		return false
	}
	ask, accepted := entry.ask()
	excess := gpuquota.ExcessFor(s.account.Over(&ask), accepted)
	if excess == nil {
		return false
	}
	entry.over(excess.Quota, excess.Used, excess.Max, excess.Asked)
	return true
}

// take notes pods that have started, free one that has ended.
func (s *shares) take(placed []release) {
	if s == nil {
		return
	}
	for _, on := range placed {
		s.account.PutOn(s.nodes[on.node], on.pod)
	}
}

func (s *shares) free(pod types.UID) {
	if s != nil {
		s.account.Drop(pod)
	}
}
