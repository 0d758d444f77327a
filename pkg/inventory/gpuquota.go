package inventory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// GPUQuota is the guarantee, the maximum and the usage of whole GPUs of a pool for namespaces. JSON keys are a contract.
type GPUQuota struct {
	Name       string   `json:"name"`
	Pool       string   `json:"pool"`
	GPUType    string   `json:"gpuType,omitempty"`
	Namespaces []string `json:"namespaces"`
	Min        int64    `json:"min"`
	// Max is nil for as many as there are.
	Max *int64 `json:"max,omitempty"`
	// The following is nil if unknown: the user may not see the pods of all namespaces, and gpu-controller has not counted them. Used is what their
	// pods hold, and Borrowed the part of it that returns to the namespaces with the guarantee.
	Used     *int64 `json:"used,omitempty"`
	Borrowed *int64 `json:"borrowed,omitempty"`
	// Free is the unused part of min that is available at once, and Lent the part that borrowers would have to release.
	Free *int64 `json:"free,omitempty"`
	Lent *int64 `json:"lent,omitempty"`
	// Borrowers are the namespaces that borrow what the quota lends, the largest first.
	Borrowers []QuotaBorrower `json:"borrowers,omitempty"`
	// Waiting is what waits for GPUs that count in the quota.
	Waiting *QuotaWaiting `json:"waiting,omitempty"`
	// Conditions show whether more is guaranteed than exists.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Created    time.Time          `json:"created"`
}

// QuotaBorrower is what the pods of a namespace borrow. JSON keys are a contract.
type QuotaBorrower struct {
	Namespace string `json:"namespace"`
	GPUs      int64  `json:"gpus"`
	// Jobs are those that borrow the most of it, for users who may see the pods of all namespaces.
	Jobs []string `json:"jobs,omitempty"`
}

// QuotaWaiting is what waits for GPUs. JSON keys are a contract.
type QuotaWaiting struct {
	Jobs  int        `json:"jobs"`
	GPUs  int64      `json:"gpus"`
	Since *time.Time `json:"since,omitempty"`
}

// maxJobs is how many jobs of a borrower are named.
const maxJobs = 5

// TrueCondition returns a condition that is true of the quota, nil where it is not.
func (q *GPUQuota) TrueCondition(kind string) *metav1.Condition {
	if meta.IsStatusConditionTrue(q.Conditions, kind) {
		return meta.FindStatusCondition(q.Conditions, kind)
	}
	return nil
}

// NoGPUQuotasError reports that a cluster has no GPUQuotas.
type NoGPUQuotasError struct{}

func (e *NoGPUQuotasError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (*NoGPUQuotasError) Message() phrase.Text {
	return phrase.Textf("this cluster knows no GPUQuotas: have the administrators apply manifests/crds")
}

// GPUQuotas reads all GPUQuotas and their state, sorted by pool and name. It returns a [NoGPUQuotasError] if the cluster has no such resource.
func (r *Reader) GPUQuotas(ctx context.Context, now time.Time) ([]GPUQuota, error) {
	read, err := snapshot.Read(ctx, r.client, snapshot.GPUQuotas(), snapshot.Clock(now), snapshot.Nodes(snapshot.Scope{Cached: true}).IfAllowed(),
		snapshot.Pods(snapshot.Scope{Fields: snapshot.LivePods, Cached: true}).IfAllowed())
	if apierrors.IsNotFound(err) {
		return nil, &NoGPUQuotasError{}
	}
	if err != nil {
		return nil, phrase.Errorf("reading GPUQuotas: %w", err)
	}
	return BuildGPUQuotas(read), nil
}

// BuildGPUQuotas is the state of GPUQuotas, sorted by pool and name: counted from the pods of all namespaces and the nodes, or as gpu-controller
// counted it for users who may not see those.
func BuildGPUQuotas(s *snapshot.Snapshot) []GPUQuota {
	out := make([]GPUQuota, len(s.GPUQuotas))
	quotas := make([]gpuquota.Quota, len(s.GPUQuotas))
	for i := range s.GPUQuotas {
		q := &s.GPUQuotas[i]
		quotas[i] = gpuquota.QuotaOf(q)
		out[i] = GPUQuota{Name: q.Name, Pool: q.Spec.Pool, GPUType: q.Spec.GPUType, Namespaces: q.Spec.Namespaces, Min: q.Spec.Min, Max: q.Spec.Max, Created: q.CreationTimestamp.Time}
		if q.Status.ObservedGeneration == q.Generation && q.Generation > 0 {
			out[i].applyStatus(&q.Status)
		}
	}
	if len(out) > 0 && s.HasPart(snapshot.PartPods) && s.HasPart(snapshot.PartAllPods) && s.HasPart(snapshot.PartNodes) {
		account := gpuquota.AccountOf(quotas, s.Nodes, s.Pods)
		jobs := borrowingJobs(account, s)
		for i, state := range account.QuotaStates(gpuStock(s), gpuDemand(s.Pods)) {
			out[i].applyState(&state, jobs, s.Now)
		}
	}
	slices.SortFunc(out, func(a, b GPUQuota) int { return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Name, b.Name)) })
	return out
}

// applyStatus adopts the counts of gpu-controller.
func (q *GPUQuota) applyStatus(status *names.GPUQuotaStatus) {
	q.Used, q.Borrowed, q.Free, q.Lent = &status.Used, &status.Borrowed, &status.Free, &status.Lent
	q.Waiting = &QuotaWaiting{Jobs: int(status.Waiting.Jobs), GPUs: status.Waiting.GPUs}
	if since := status.Waiting.Since; since != nil {
		q.Waiting.Since = &since.Time
	}
	for _, b := range status.Borrowers {
		q.Borrowers = append(q.Borrowers, QuotaBorrower{Namespace: b.Namespace, GPUs: b.GPUs})
	}
	q.Conditions = status.Conditions
}

// applyState takes what was counted at a time.
func (q *GPUQuota) applyState(state *gpuquota.State, jobs map[borrowerKey][]string, now time.Time) {
	q.Used, q.Borrowed, q.Free, q.Lent = &state.Used, &state.Borrowed, &state.Free, &state.Lent
	q.Waiting = &QuotaWaiting{Jobs: state.Waiting.Jobs, GPUs: state.Waiting.GPUs}
	if since := state.Waiting.Since; !since.IsZero() {
		q.Waiting.Since = &since
	}
	q.Borrowers = nil
	for _, b := range state.Borrowers {
		q.Borrowers = append(q.Borrowers, QuotaBorrower{Namespace: b.Namespace, GPUs: b.GPUs, Jobs: jobs[borrowerKey{gpuquota.Place{Pool: q.Pool, Type: q.GPUType}, b.Namespace}]})
	}
	conditions := slices.Clone(q.Conditions)
	for _, condition := range state.Conditions() {
		condition.LastTransitionTime = metav1.NewTime(now)
		meta.SetStatusCondition(&conditions, condition)
	}
	q.Conditions = conditions
}

// gpuStock is how many GPUs nodes have, by pool and type.
func gpuStock(s *snapshot.Snapshot) map[gpuquota.Place]gpuquota.Stock {
	out := map[gpuquota.Place]gpuquota.Stock{}
	for _, node := range buildNodes(s.Nodes, s.Pods, s.GPUPools) {
		at := gpuquota.Place{Pool: node.Pool, Type: node.GPUType}
		stock := gpuquota.Stock{There: node.GPUs.Allocatable}
		if node.IsSchedulable() {
			stock.Open, stock.Free = node.GPUs.Allocatable, node.GPUs.Free
		}
		out[at] = out[at].Plus(stock)
	}
	return out
}

func gpuDemand(pods []corev1.Pod) (out []gpuquota.Demand) {
	for i := range pods {
		if demand, waits := gpuquota.DemandOf(&pods[i]); waits {
			out = append(out, demand)
		}
	}
	return out
}

// borrowerKey is a namespace that borrows at a place: of a type, or of all of a pool.
type borrowerKey struct {
	at        gpuquota.Place
	namespace string
}

// borrowingJobs are the jobs that borrow, of each namespace those that borrow the most.
func borrowingJobs(account *gpuquota.Account, s *snapshot.Snapshot) map[borrowerKey][]string {
	nodes := make(map[string]*corev1.Node, len(s.Nodes))
	for i := range s.Nodes {
		nodes[s.Nodes[i].Name] = &s.Nodes[i]
	}
	sums := map[borrowerKey]map[string]int64{}
	for i := range s.Pods {
		pod := &s.Pods[i]
		if pod.Spec.NodeName == "" || !account.IsBorrowing(pod.UID) {
			continue
		}
		at := gpuquota.PlaceOf(pod, nodes[pod.Spec.NodeName])
		for _, where := range slices.Compact([]gpuquota.Place{at, {Pool: at.Pool}}) {
			key := borrowerKey{where, pod.Namespace}
			if sums[key] == nil {
				sums[key] = map[string]int64{}
			}
			sums[key][gang.WorkloadOf(pod).Name] += gpuquota.WholeGPUs(pod)
		}
	}
	out := make(map[borrowerKey][]string, len(sums))
	for key, jobs := range sums {
		all := slices.SortedFunc(maps.Keys(jobs), func(a, b string) int { return cmp.Or(cmp.Compare(jobs[b], jobs[a]), cmp.Compare(a, b)) })
		out[key] = all[:min(len(all), maxJobs)]
	}
	return out
}
