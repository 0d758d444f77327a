// Package gpuquota decides how many whole GPUs of a pool namespaces may have: GPUQuotas guarantee a minimum and allow borrowing up to a maximum.
// Borrowed GPUs return when a pod with a guarantee finds no other room. The package is pure: an [Account] of all holdings, and queries on it.
//
// Within a quota, pods count as guaranteed in order while they fit: high priority first, then the oldest. All other pods of the pool borrow,
// including those of namespaces without a quota.
package gpuquota

import (
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Unbounded is the maximum of a quota without one.
const Unbounded = math.MaxInt64

// Quota is the number of GPUs that some namespaces have together.
type Quota struct {
	Name       string
	Namespaces []string
	Pool       string
	// Type is the only GPU type that counts, "" for all of the pool.
	Type     string
	Min, Max int64
}

// QuotaOf reads a GPUQuota.
func QuotaOf(q *names.GPUQuota) Quota {
	out := Quota{Name: q.Name, Namespaces: q.Spec.Namespaces, Pool: q.Spec.Pool, Type: q.Spec.GPUType, Min: max(0, q.Spec.Min), Max: Unbounded}
	if q.Spec.Max != nil {
		out.Max = max(0, *q.Spec.Max)
	}
	return out
}

// Place is the property by which quotas distinguish nodes.
type Place struct{ Pool, Type string }

// Equal reports whether two quotas are equal.
func (q *Quota) Equal(other *Quota) bool {
	return q.Name == other.Name && slices.Equal(q.Namespaces, other.Namespaces) && q.Pool == other.Pool && q.Type == other.Type &&
		q.Min == other.Min && q.Max == other.Max
}

// CountsNamespace reports whether a quota counts what pods of a namespace hold at a place.
func (q *Quota) CountsNamespace(namespace string, at Place) bool {
	return q.coversPlace(at) && slices.Contains(q.Namespaces, namespace)
}

func (q *Quota) coversPlace(at Place) bool {
	return q.Pool == at.Pool && (q.Type == "" || q.Type == at.Type)
}

// Holding is a pod that has GPUs, or for which some are reserved.
type Holding struct {
	Pod       types.UID
	Namespace string
	// Unit is equal for pods that are evicted together.
	Unit string
	At   Place
	GPUs int64
	// Waits says that the pod does not hold them yet: it is nominated for a node that other pods are leaving.
	Waits    bool
	Priority int32
	Since    time.Time
}

// Account records all holdings. It is not safe for concurrent use.
type Account struct {
	quotas  []*tally
	byShare map[share][]*tally
	// guaranteed are the pools in which a quota has a min.
	guaranteed map[string]bool
	pods       map[types.UID]*entry
	// waiting counts the pods for which GPUs are reserved, by pool.
	waiting map[string]int
}

// share is the lookup key of quotas.
type share struct{ namespace, pool string }

// tally is the usage of a quota.
type tally struct {
	Quota
	used, kept int64
	pods       map[types.UID]*entry
	// secured are the pods within the min, nil if it must be recomputed.
	secured map[types.UID]bool
}

type entry struct {
	Holding
	tallies []*tally
}

// NewAccount returns an account without holdings.
func NewAccount(quotas []Quota) *Account {
	a := &Account{byShare: map[share][]*tally{}, guaranteed: map[string]bool{}, pods: map[types.UID]*entry{}, waiting: map[string]int{}}
	for i := range quotas {
		t := &tally{Quota: quotas[i], pods: map[types.UID]*entry{}}
		a.quotas = append(a.quotas, t)
		for _, namespace := range t.Namespaces {
			key := share{namespace, t.Pool}
			a.byShare[key] = append(a.byShare[key], t)
		}
		if t.Min > 0 {
			a.guaranteed[t.Pool] = true
		}
	}
	return a
}

// SetHolding records the holding of a pod and replaces its previous one.
func (a *Account) SetHolding(h Holding) {
	if old := a.pods[h.Pod]; old != nil && old.Holding == h {
		return
	}
	a.RemovePod(h.Pod)
	if h.GPUs <= 0 {
		return
	}
	e := &entry{Holding: h}
	for _, t := range a.byShare[share{h.Namespace, h.At.Pool}] {
		if t.coversPlace(h.At) {
			e.tallies = append(e.tallies, t)
			t.pods[h.Pod] = e
			t.addGPUs(h.GPUs, h.Waits)
		}
	}
	a.pods[h.Pod] = e
	if h.Waits {
		a.waiting[h.At.Pool]++
	}
}

// RemovePod removes the holding of a pod.
func (a *Account) RemovePod(pod types.UID) {
	e := a.pods[pod]
	if e == nil {
		return
	}
	delete(a.pods, pod)
	for _, t := range e.tallies {
		delete(t.pods, pod)
		t.addGPUs(-e.GPUs, e.Waits)
	}
	if e.Waits {
		a.waiting[e.At.Pool]--
	}
}

func (t *tally) addGPUs(gpus int64, waits bool) {
	t.secured = nil
	if waits {
		t.kept += gpus
	} else {
		t.used += gpus
	}
}

// HasNominees reports whether GPUs of a pool are reserved for pods that wait for others to leave.
func (a *Account) HasNominees(pool string) bool { return a.guaranteed[pool] && a.waiting[pool] > 0 }

// Ask is a request of pods of one namespace and pool that want to start: one pod, or the missing members of a gang.
type Ask struct {
	Namespace, Pool string
	GPUs            int64
	// Pods are the requesting pods: reservations for them do not count against them.
	Pods []types.UID
	// ByType returns how many of the GPUs may be of a type, if members of a gang accept several types; nil means all.
	ByType func(gpuType string) int64
}

// gpusFor returns how many of the requested GPUs count in a quota.
func (a *Ask) gpusFor(t *tally) int64 {
	if t.Type == "" || a.ByType == nil {
		return a.GPUs
	}
	return a.ByType(t.Type)
}

// Excess is an exceeded quota.
type Excess struct {
	Quota       string
	At          Place
	Asked, Used int64
	Max         int64
}

// ExceededQuotas returns the quotas that a request would exceed, by the GPU type that they count, which is "" for all GPUs of the pool. It is nil if there are
// none.
func (a *Account) ExceededQuotas(ask *Ask) map[string]Excess {
	var over map[string]Excess
	for _, t := range a.byShare[share{ask.Namespace, ask.Pool}] {
		used, asked := t.used+t.keptBeside(ask), ask.gpusFor(t)
		if asked <= 0 || used <= t.Max && asked <= t.Max-used {
			continue
		}
		if over == nil {
			over = map[string]Excess{}
		}
		if _, known := over[t.Type]; !known {
			over[t.Type] = Excess{Quota: t.Name, At: Place{t.Pool, t.Type}, Asked: asked, Used: used, Max: t.Max}
		}
	}
	return over
}

// ExcessFor returns the quota that keeps pods with the accepted GPU types, none for all, off every node, given the result of
// [Account.ExceededQuotas]; nil for none.
func ExcessFor(over map[string]Excess, accepted []string) *Excess {
	if excess, ok := over[""]; ok {
		return &excess
	}
	for _, name := range accepted {
		if _, ok := over[name]; !ok {
			return nil
		}
	}
	if len(accepted) == 0 {
		return nil
	}
	excess := over[accepted[0]]
	return &excess
}

// IsWithinMin reports whether a request stays within the guarantee at a place.
func (a *Account) IsWithinMin(ask *Ask, at Place) bool { return a.isGuaranteed(ask, at, "") }

// isGuaranteed reports whether a request is guaranteed at a place by a quota that does not count another pod.
func (a *Account) isGuaranteed(ask *Ask, at Place, to types.UID) bool {
	if ask.Pool != at.Pool || ask.GPUs <= 0 {
		return false
	}
	for _, t := range a.byShare[share{ask.Namespace, ask.Pool}] {
		asked := ask.gpusFor(t)
		if t.pods[to] != nil || !t.coversPlace(at) || asked <= 0 {
			continue
		}
		if used := t.used + t.keptBeside(ask); used <= t.Min && asked <= t.Min-used {
			return true
		}
	}
	return false
}

// keptBeside returns the reservations for pods other than the requesting ones.
func (t *tally) keptBeside(ask *Ask) int64 {
	kept := t.kept
	for _, pod := range ask.Pods {
		if e := t.pods[pod]; e != nil && e.Waits {
			kept -= e.GPUs
		}
	}
	return kept
}

// IsEntitled reports whether a request stays within the guarantee at any place of the pool.
func (a *Account) IsEntitled(ask *Ask) bool {
	for _, t := range a.byShare[share{ask.Namespace, ask.Pool}] {
		if a.isGuaranteed(ask, Place{t.Pool, t.Type}, "") {
			return true
		}
	}
	return false
}

// MustDefer reports whether a request must leave a pod's reservation alone: it is guaranteed to that pod, and the request would borrow it.
func (a *Account) MustDefer(ask *Ask, pod types.UID) bool {
	e := a.pods[pod]
	return e != nil && e.Waits && a.StandingOf(pod, ask) == Protected && !a.IsWithinMin(ask, e.At)
}

// ShareQuota reports whether two namespaces share a quota of a pool, or are equal.
func (a *Account) ShareQuota(first, second, pool string) bool {
	return first == second || slices.ContainsFunc(a.byShare[share{first, pool}], func(t *tally) bool { return slices.Contains(t.Namespaces, second) })
}
