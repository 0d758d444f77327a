// Package gpuquotas keeps the status of GPUQuotas: how much is in use, borrowed and lent, what waits, and whether more is guaranteed than exists.
//
// [StatusOf] and [ChangedStatuses] are pure; the [Reconciler] reads the cluster from its cache, and writes.
package gpuquotas

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
)

// StatusOf returns the status of a counted quota. It lists borrowers only while something waits for lent GPUs: otherwise every status would change
// with each loan.
func StatusOf(q *g8s.GPUQuota, counted *inventory.GPUQuota) g8s.GPUQuotaStatus {
	out := g8s.GPUQuotaStatus{
		ObservedGeneration: q.Generation, Used: *counted.Used, Borrowed: *counted.Borrowed, Free: *counted.Free, Lent: *counted.Lent,
		Waiting:    g8s.PendingDemand{Jobs: int32(counted.Waiting.Jobs), GPUs: counted.Waiting.GPUs},
		Conditions: slices.Clone(counted.Conditions),
	}
	for i := range out.Conditions {
		out.Conditions[i].ObservedGeneration = q.Generation
	}
	if since := counted.Waiting.Since; since != nil {
		out.Waiting.Since = &metav1.Time{Time: *since}
	}
	if out.Waiting.Jobs == 0 {
		return out
	}
	for _, b := range counted.Borrowers[:min(len(counted.Borrowers), g8s.MostBorrowers)] {
		out.Borrowers = append(out.Borrowers, g8s.GPUQuotaBorrower{Namespace: b.Namespace, GPUs: b.GPUs})
	}
	return out
}

// Change is a status to write.
type Change struct {
	Name   string
	Status g8s.GPUQuotaStatus
	// urgency orders changes with a new spec or changed conditions first, and then those that jobs wait for.
	urgency int
}

// ChangedStatuses returns the statuses that differ from the written ones, the most important first, and then by name starting after one, so that each gets
// its turn.
func ChangedStatuses(quotas []g8s.GPUQuota, counted []inventory.GPUQuota, after string) []Change {
	by := make(map[string]*inventory.GPUQuota, len(counted))
	for i := range counted {
		by[counted[i].Name] = &counted[i]
	}
	var out []Change
	for i := range quotas {
		q := &quotas[i]
		found := by[q.Name]
		if found == nil || found.Used == nil {
			continue
		}
		status := StatusOf(q, found)
		if equality.Semantic.DeepEqual(status, q.Status) {
			continue
		}
		out = append(out, Change{Name: q.Name, Status: status, urgency: urgencyOf(q, &status)})
	}
	slices.SortFunc(out, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.urgency, b.urgency), compareBool(a.Name <= after, b.Name <= after), cmp.Compare(a.Name, b.Name))
	})
	return out
}

func urgencyOf(q *g8s.GPUQuota, status *g8s.GPUQuotaStatus) int {
	switch {
	case q.Status.ObservedGeneration != q.Generation, !equality.Semantic.DeepEqual(q.Status.Conditions, status.Conditions):
		return 0
	case q.Status.Waiting.Jobs > 0 || status.Waiting.Jobs > 0:
		return 1
	}
	return 2
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
