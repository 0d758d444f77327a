// Package follow keeps the account of who has how many GPUs of which GPUQuota, as the plugins of a scheduler share it. It counts
// the pods that there are, so that a scheduler that has just become the leader knows what the one before it knew; beside, those
// that this process has chosen a node for. In a cluster without GPUQuotas it keeps nothing.
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
	// gather is how long changes are gathered before anybody is told of them: there may be many.
	gather = 100 * time.Millisecond
	// promised is how long GPUs are kept for a pod after others were told to leave for it: by then it is nominated, which counts.
	promised = 10 * time.Second
)

// Quotas are those of the cluster, from memory. Nothing that asks them waits for anything. nil has none.
type Quotas struct {
	now func() time.Time

	once sync.Once
	// store is that of the informer, nil where none runs, and synced says that its objects have been told of.
	store  cache.Store
	synced cache.InformerSynced
	pods   cache.Indexer
	nodes  listersv1.NodeLister

	// active says that there are some, or have been, and outdated that all is to be counted again.
	active, outdated atomic.Bool
	revision         atomic.Uint64

	mu      sync.Mutex
	account *gpuquota.Account
	unitOf  func(*corev1.Pod) string
	// chosen are the nodes of pods that are on their way there, and kept those that others leave for pods.
	chosen map[types.UID]string
	kept   map[types.UID]promise
	// strange are the nodes of pods that are not known yet.
	strange map[string]bool
	changed func()
	timer   *time.Timer
}

// promise is a node that others leave for a pod.
type promise struct {
	pod   *corev1.Pod
	node  string
	until time.Time
}

// New returns quotas by a clock, time.Now if it is nil. They are none until they are followed.
func New(now func() time.Time) *Quotas {
	if now == nil {
		now = time.Now
	}
	return &Quotas{now: now, chosen: map[types.UID]string{}, kept: map[types.UID]promise{}}
}

// Follow keeps the account in step with the cluster. The first call counts: all profiles of a process have the same informers.
// A handle that knows no API server has no quotas, nor has nil.
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

// GatherBy tells which pods leave together: those of which this says the same.
func (q *Quotas) GatherBy(unitOf func(*corev1.Pod) string) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unitOf = unitOf
}

// OnChange has a function called when GPUQuotas have changed. There is one such function.
func (q *Quotas) OnChange(changed func()) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changed = changed
}

// Any reports whether there are any.
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

// current is the account, nil for none. q.mu is held.
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

// count counts all pods anew.
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

// expire ends what was promised to pods that are not nominated by now.
func (q *Quotas) expire() {
	now := q.now()
	for uid, promise := range q.kept {
		if !now.Before(promise.until) {
			delete(q.kept, uid)
			q.note(q.account, promise.pod)
		}
	}
}

// Reserve notes that a pod goes to a node.
func (q *Quotas) Reserve(pod *corev1.Pod, node string) {
	q.move(pod, func() { q.chosen[pod.UID] = node })
}

// Unreserve notes that it does not.
func (q *Quotas) Unreserve(pod *corev1.Pod) {
	q.move(pod, func() { delete(q.chosen, pod.UID) })
}

func (q *Quotas) move(pod *corev1.Pod, change func()) {
	q.with(func(a *gpuquota.Account) {
		change()
		q.note(a, pod)
	})
}

// Promise keeps GPUs for pods that others are about to leave nodes for, until they are nominated.
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
