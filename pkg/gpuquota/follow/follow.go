// Package follow keeps the account of GPUQuota usage for the plugins of a scheduler. It counts the existing pods, so that a new leader knows what the
// previous one knew, and the pods that this process has assumed on a node. In a cluster without GPUQuotas it keeps nothing.
package follow

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gpuquota"
)

const (
	// gatherInterval is how long changes are collected before the notification: there may be many.
	gatherInterval = 100 * time.Millisecond
	// nomineeHoldTTL is how long GPUs are reserved for a preemptor: by then it is nominated, which also counts.
	nomineeHoldTTL = 10 * time.Second
)

// Quotas are the cluster's GPUQuotas, in memory. Queries never block on I/O. nil has none.
type Quotas struct {
	now func() time.Time

	once sync.Once
	// store is the informer's store, nil if none runs. synced reports that its objects have been processed.
	store  cache.Store
	synced cache.InformerSynced
	pods   cache.Indexer
	nodes  listersv1.NodeLister

	// active says that GPUQuotas exist or existed. outdated says that everything must be recounted.
	active, outdated atomic.Bool
	revision         atomic.Uint64

	mu      sync.Mutex
	account *gpuquota.Account
	unitOf  func(*corev1.Pod) string
	// assumed are the nodes of assumed pods, and nominees the nodes reserved for preemptors.
	assumed  map[types.UID]string
	nominees map[types.UID]nomineeHold
	// unknownNodes are the nodes of pods that are not known yet.
	unknownNodes map[string]bool
	changed      func()
	timer        *time.Timer
}

// nomineeHold is a node that victims are leaving for a pod.
type nomineeHold struct {
	pod   *corev1.Pod
	node  string
	until time.Time
}

// New returns quotas with a clock, time.Now if it is nil. They are empty until they are watched.
func New(now func() time.Time) *Quotas {
	if now == nil {
		now = time.Now
	}
	return &Quotas{now: now, assumed: map[types.UID]string{}, nominees: map[types.UID]nomineeHold{}}
}

// StartWatching keeps the account in sync with the cluster. Only the first call has an effect: all profiles of a process share the informers. A handle
// without an API server has no quotas, and neither has nil.
func (q *Quotas) StartWatching(handle fwk.Handle) (err error) {
	if q == nil || handle.KubeConfig() == nil {
		return nil
	}
	q.once.Do(func() {
		api, failed := dynamic.NewForConfig(handle.KubeConfig())
		if failed != nil {
			err = fmt.Errorf("building the client of GPUQuotas: %w", failed)
			return
		}
		err = q.addHandlers(handle.SharedInformerFactory(), api)
	})
	return err
}

// GatherBy sets the function that groups pods into units: pods with the same result are evicted together.
func (q *Quotas) GatherBy(unitOf func(*corev1.Pod) string) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unitOf = unitOf
}

// OnChange sets the function to call when GPUQuotas change. There is one such function.
func (q *Quotas) OnChange(changed func()) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changed = changed
}

// HasAny reports whether there are GPUQuotas.
func (q *Quotas) HasAny() bool {
	return q != nil && q.store != nil && (q.active.Load() || !q.synced() && len(q.store.ListKeys()) > 0)
}

// Revision changes with the GPUQuotas.
func (q *Quotas) Revision() uint64 {
	if q == nil {
		return 0
	}
	return q.revision.Load()
}

// withAccount calls a function with the account, if there is one.
func (q *Quotas) withAccount(do func(*gpuquota.Account)) {
	if !q.HasAny() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if a := q.currentAccount(); a != nil {
		do(a)
	}
}

// currentAccount returns the account, nil for none. The caller holds q.mu.
func (q *Quotas) currentAccount() *gpuquota.Account {
	if q.outdated.Swap(false) || !q.synced() {
		q.account = q.rebuildAccount()
		q.active.Store(q.account != nil)
	}
	if q.account != nil {
		q.expireNominees()
	}
	return q.account
}

// rebuildAccount recounts all pods.
func (q *Quotas) rebuildAccount() *gpuquota.Account {
	var quotas []gpuquota.Quota
	for _, object := range q.store.List() {
		if known, ok := object.(*knownQuota); ok && known.usable {
			quotas = append(quotas, known.quota)
		}
	}
	q.unknownNodes = map[string]bool{}
	if len(quotas) == 0 {
		clear(q.assumed)
		clear(q.nominees)
		return nil
	}
	a := gpuquota.NewAccount(quotas)
	for _, object := range q.pods.List() {
		if pod, ok := object.(*corev1.Pod); ok {
			q.recordHolding(a, pod)
		}
	}
	return a
}

// expireNominees drops reservations of pods that are not nominated in time.
func (q *Quotas) expireNominees() {
	now := q.now()
	for uid, promise := range q.nominees {
		if !now.Before(promise.until) {
			delete(q.nominees, uid)
			q.recordHolding(q.account, promise.pod)
		}
	}
}

// Reserve records that a pod is assumed on a node.
func (q *Quotas) Reserve(pod *corev1.Pod, node string) {
	q.changeHolding(pod, func() { q.assumed[pod.UID] = node })
}

// Unreserve reverts Reserve.
func (q *Quotas) Unreserve(pod *corev1.Pod) {
	q.changeHolding(pod, func() { delete(q.assumed, pod.UID) })
}

func (q *Quotas) changeHolding(pod *corev1.Pod, change func()) {
	q.withAccount(func(a *gpuquota.Account) {
		change()
		q.recordHolding(a, pod)
	})
}

// HoldForNominees reserves GPUs for preemptors until they are nominated.
func (q *Quotas) HoldForNominees(pods []*corev1.Pod, to map[types.UID]string) {
	q.withAccount(func(a *gpuquota.Account) {
		for _, pod := range pods {
			if node := to[pod.UID]; node != "" {
				q.nominees[pod.UID] = nomineeHold{pod: pod, node: node, until: q.now().Add(nomineeHoldTTL)}
				q.recordHolding(a, pod)
			}
		}
	})
}
