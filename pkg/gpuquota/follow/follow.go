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
	// gather is how long changes are collected before the notification: there may be many.
	gather = 100 * time.Millisecond
	// promised is how long GPUs are reserved for a preemptor: by then it is nominated, which also counts.
	promised = 10 * time.Second
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
	// chosen are the nodes of assumed pods, and nominees the nodes reserved for preemptors.
	chosen map[types.UID]string
	kept   map[types.UID]promise
	// strange are the nodes of pods that are not known yet.
	strange map[string]bool
	changed func()
	timer   *time.Timer
}

// promise is a node that victims are leaving for a pod.
type promise struct {
	pod   *corev1.Pod
	node  string
	until time.Time
}

// New returns quotas with a clock, time.Now if it is nil. They are empty until they are watched.
func New(now func() time.Time) *Quotas {
	if now == nil {
		now = time.Now
	}
	return &Quotas{now: now, chosen: map[types.UID]string{}, kept: map[types.UID]promise{}}
}

// Follow keeps the account in sync with the cluster. Only the first call has an effect: all profiles of a process share the informers. A handle
// without an API server has no quotas, and neither has nil.
func (q *Quotas) Follow(handle fwk.Handle) (err error) {
	if q == nil || handle.KubeConfig() == nil {
		return nil
	}
	q.once.Do(func() {
		api, failed := dynamic.NewForConfig(handle.KubeConfig())
		if failed != nil {
			err = fmt.Errorf("building the client of GPUQuotas: %w", failed)
			return
		}
		err = q.follow(handle.SharedInformerFactory(), api)
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

// Any reports whether there are GPUQuotas.
func (q *Quotas) Any() bool {
	return q != nil && q.store != nil && (q.active.Load() || !q.synced() && len(q.store.ListKeys()) > 0)
}

// Revision changes with the GPUQuotas.
func (q *Quotas) Revision() uint64 {
	if q == nil {
		return 0
	}
	return q.revision.Load()
}

// with calls a function with the account, if there is one.
func (q *Quotas) with(do func(*gpuquota.Account)) {
	if !q.Any() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if a := q.current(); a != nil {
		do(a)
	}
}

// current returns the account, nil for none. The caller holds q.mu.
func (q *Quotas) current() *gpuquota.Account {
	if q.outdated.Swap(false) || !q.synced() {
		q.account = q.count()
		q.active.Store(q.account != nil)
	}
	if q.account != nil {
		q.expire()
	}
	return q.account
}

// count recounts all pods.
func (q *Quotas) count() *gpuquota.Account {
	var quotas []gpuquota.Quota
	for _, object := range q.store.List() {
		if known, ok := object.(*known); ok && known.usable {
			quotas = append(quotas, known.quota)
		}
	}
	q.strange = map[string]bool{}
	if len(quotas) == 0 {
		clear(q.chosen)
		clear(q.kept)
		return nil
	}
	a := gpuquota.NewAccount(quotas)
	for _, object := range q.pods.List() {
		if pod, ok := object.(*corev1.Pod); ok {
			q.note(a, pod)
		}
	}
	return a
}

// expire drops reservations of pods that are not nominated in time.
func (q *Quotas) expire() {
	now := q.now()
	for uid, promise := range q.kept {
		if !now.Before(promise.until) {
			delete(q.kept, uid)
			q.note(q.account, promise.pod)
		}
	}
}

// Reserve records that a pod is assumed on a node.
func (q *Quotas) Reserve(pod *corev1.Pod, node string) {
	q.move(pod, func() { q.chosen[pod.UID] = node })
}

// Unreserve reverts Reserve.
func (q *Quotas) Unreserve(pod *corev1.Pod) {
	q.move(pod, func() { delete(q.chosen, pod.UID) })
}

func (q *Quotas) move(pod *corev1.Pod, change func()) {
	q.with(func(a *gpuquota.Account) {
		change()
		q.note(a, pod)
	})
}

// Promise reserves GPUs for preemptors until they are nominated.
func (q *Quotas) Promise(pods []*corev1.Pod, to map[types.UID]string) {
	q.with(func(a *gpuquota.Account) {
		for _, pod := range pods {
			if node := to[pod.UID]; node != "" {
				q.kept[pod.UID] = promise{pod: pod, node: node, until: q.now().Add(promised)}
				q.note(a, pod)
			}
		}
	})
}
