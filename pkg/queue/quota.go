package queue

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/amounts"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// underQuotas applies GPUQuotas to entries by the current usage, counted here or by gpu-controller. An entry whose namespace has reached its maximum
// waits for that and not for nodes. An entry with a guarantee gets back what others borrow.
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
	ask, accepted := e.quotaAsk()
	for i := range quotas {
		q := &quotas[i]
		if ask.GPUs == 0 || !e.isUnder(q) {
			continue
		}
		over := q.Max != nil && ask.GPUs > *q.Max-*q.Used
		switch {
		case over && acceptsOnly(q.GPUType, accepted):
			e.blockByQuota(q.Name, *q.Used, *q.Max, ask.GPUs)
		case q.GPUType == "" || len(accepted) == 0 || slices.Contains(accepted, q.GPUType):
			e.Reclaims = e.Cause == "" && (e.Reclaims || ask.GPUs <= q.Min-*q.Used && *q.Lent > 0)
		}
	}
}

// isUnder reports whether a quota counts the GPUs of an entry, and its usage is known.
func (e *Entry) isUnder(q *inventory.GPUQuota) bool {
	return q.Used != nil && q.Pool == e.Pool && slices.Contains(q.Namespaces, e.Namespace)
}

// acceptsOnly reports whether a pod that accepts these types can get only GPUs of this quota, "" for all.
func acceptsOnly(quota string, accepted []string) bool {
	return quota == "" || len(accepted) == 1 && accepted[0] == quota
}

// quotaAsk returns what an entry requests of quotas at once, and the GPU types that it accepts: all of a gang, or one pod of those that start one by one.
func (e *Entry) quotaAsk() (gpuquota.Ask, []string) {
	out := gpuquota.Ask{Namespace: e.Namespace, Pool: e.Pool}
	var accepted []string
	for i, request := range e.demand.requests[min(e.demand.placed, len(e.demand.requests)):] {
		if i > 0 && !e.demand.startsTogether() {
			break
		}
		out.GPUs = amounts.Add(out.GPUs, gpuquota.WholeGPUs(request.Pod))
		out.Pods = append(out.Pods, request.Pod.UID)
		if types, err := gpu.PodTypes(request.Pod); err == nil {
			accepted = types.Accepted
		}
	}
	return out, accepted
}

// blockByQuota records that a quota blocks an entry, whatever is free on nodes.
func (e *Entry) blockByQuota(quota string, used, most, asked int64) {
	if asked > most {
		e.Never = true
		e.setBlocked(diagnosis.Finding{Cause: reason.GPUQuotaReached, Message: phrase.Textf(
			"the namespace may have %d GPUs, and the job asks for %d (GPUQuota %s)", most, asked, quota)}.WithText())
		return
	}
	e.setBlocked(diagnosis.Finding{Cause: reason.GPUQuotaReached, Message: phrase.Textf(
		"%d of %d GPUs that the namespace may have are in use, and the job asks for %d (GPUQuota %s)", used, most, asked, quota)}.WithText())
	e.demand.overQuota = true
}

// quotaShares are the GPUQuotas of a pool as its queue is played forward, nil for none.
type quotaShares struct {
	account *gpuquota.Account
	quotas  []gpuquota.Quota
	nodes   map[string]*corev1.Node
	// freed are the quotas of which something was released since the entries that wait for them were last tried.
	freed map[string]bool
}

// poolQuotas are the GPUQuotas of a pool.
func poolQuotas(objects []names.GPUQuota, pool string) (out []gpuquota.Quota) {
	for i := range objects {
		if objects[i].Spec.Pool == pool {
			out = append(out, gpuquota.QuotaOf(&objects[i]))
		}
	}
	return out
}

func newQuotaShares(objects *snapshot.Snapshot, pool *pool) *quotaShares {
	quotas := poolQuotas(objects.GPUQuotas, pool.name)
	if len(quotas) == 0 {
		return nil
	}
	out := &quotaShares{
		account: gpuquota.NewAccount(quotas), quotas: quotas, nodes: make(map[string]*corev1.Node, len(pool.nodes)), freed: map[string]bool{},
	}
	for i := range pool.nodes {
		out.nodes[pool.nodes[i].Name] = &pool.nodes[i]
	}
	for i := range objects.Pods {
		if node := out.nodes[objects.Pods[i].Spec.NodeName]; node != nil { // most are on nodes of other pools
			out.account.SetHoldingOn(node, &objects.Pods[i])
		}
	}
	return out
}

// countAllowed returns how many of the waiting pods of an entry may start beside those started so far: all of a gang or none. It also returns the quota that
// is exhausted, nil for none.
func (s *quotaShares) countAllowed(entry *Entry, left []*fit.Request) (int, *gpuquota.Excess) {
	if s == nil {
		return len(left), nil
	}
	ask, accepted := entry.quotaAsk()
	if entry.demand.startsTogether() {
		excess := gpuquota.ExcessFor(s.account.ExceededQuotas(&ask), accepted)
		if excess != nil {
			entry.demand.limitingQuota = limitingQuotaOf(excess, accepted)
			return 0, excess
		}
		return len(left), nil
	}
	each, most := ask.GPUs, int64(len(left))
	var first *gpuquota.Excess
	for most > 0 && each > 0 {
		ask.GPUs = each * most
		excess := gpuquota.ExcessFor(s.account.ExceededQuotas(&ask), accepted)
		if excess == nil {
			break
		}
		most = max(0, min(most-1, (excess.Max-excess.Used)/each))
		excess.Asked, entry.demand.limitingQuota, first = each, limitingQuotaOf(excess, accepted), excess
	}
	return int(most), first
}

// limitingQuotaOf is the one quota that blocks a start, "" if more of another quota would do, as for another GPU type.
func limitingQuotaOf(excess *gpuquota.Excess, accepted []string) string {
	if excess.At.Type != "" && len(accepted) > 1 {
		return ""
	}
	return excess.Quota
}

// hasLeft reports whether something of a quota was released, "" for any of them.
func (s *quotaShares) hasLeft(quota string) bool { return s == nil || quota == "" || s.freed[quota] }

// clearFreed records that the entries that wait for released quota were tried.
func (s *quotaShares) clearFreed() {
	if s != nil {
		clear(s.freed)
	}
}

// addStarted records pods that have started, removeEnded one that has ended.
func (s *quotaShares) addStarted(placed []release) {
	if s == nil {
		return
	}
	for _, on := range placed {
		s.account.SetHoldingOn(s.nodes[on.node], on.pod)
	}
}

func (s *quotaShares) removeEnded(ended release) {
	if s == nil {
		return
	}
	at := gpuquota.PlaceOf(ended.pod, s.nodes[ended.node])
	for i := range s.quotas {
		if q := &s.quotas[i]; q.CountsNamespace(ended.pod.Namespace, at) {
			s.freed[q.Name] = true
		}
	}
	s.account.RemovePod(ended.pod.UID)
}
