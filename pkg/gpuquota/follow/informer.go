package follow

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
	"g8s.host/gpu-scheduler/pkg/optional"
)

var gpuQuotas = names.SchemeGroupVersion.WithResource("gpuquotas")

// knownQuota is the stored part of a GPUQuota. An unreadable one, as by a modified CRD, is not usable.
type knownQuota struct {
	metav1.ObjectMeta

	quota  gpuquota.Quota
	usable bool
}

// sameRules reports whether an update left the rules of a GPUQuota unchanged. Its status changes with each job, and recounting all pods and retrying
// all waiting ones each time would stall the scheduler.
func sameRules(old, object any) bool {
	before, known1 := old.(*knownQuota)
	after, known2 := object.(*knownQuota)
	return known1 && known2 && before.usable == after.usable && before.quota.Equal(&after.quota)
}

// keyOfQuotas is the type that identifies our informer in informers.SharedInformerFactory.
type keyOfQuotas struct{ unstructured.Unstructured }

// addHandlers adds event handlers for GPUQuotas, pods and nodes. The quota informer belongs to the scheduler's factory, so that the scheduler waits for
// its sync before the first cycle.
func (q *Quotas) addHandlers(factory informers.SharedInformerFactory, api dynamic.Interface) error {
	quotas, err := informerOf(factory, api)
	if err != nil {
		return err
	}
	nodes, pods := factory.Core().V1().Nodes(), factory.Core().V1().Pods().Informer()
	q.store, q.pods, q.nodes = quotas.GetStore(), pods.GetIndexer(), nodes.Lister()
	registration, err := quotas.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { q.quotasChanged() }, DeleteFunc: func(any) { q.quotasChanged() },
		UpdateFunc: func(old, object any) {
			if !sameRules(old, object) {
				q.quotasChanged()
			}
		},
	})
	if err != nil {
		return fmt.Errorf("following GPUQuotas: %w", err)
	}
	q.synced = registration.HasSynced
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: q.podChanged, UpdateFunc: func(_, object any) { q.podChanged(object) }, DeleteFunc: q.podChanged,
	}); err != nil {
		return fmt.Errorf("following pods: %w", err)
	}
	if _, err := nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: q.nodeAdded, UpdateFunc: q.nodeChanged}); err != nil {
		return fmt.Errorf("following nodes: %w", err)
	}
	return nil
}

func informerOf(factory informers.SharedInformerFactory, api dynamic.Interface) (cache.SharedIndexInformer, error) {
	informer := factory.InformerFor(&keyOfQuotas{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		source := &optional.Kind{Client: api, Resource: gpuQuotas, Consequence: "no namespace is guaranteed GPUs, nor bounded but by ResourceQuotas"}
		return cache.NewSharedIndexInformer(source, &unstructured.Unstructured{}, 0, cache.Indexers{})
	})
	if err := informer.SetTransform(transformQuota); err != nil {
		return nil, fmt.Errorf("following GPUQuotas: %w", err)
	}
	return informer, nil
}

// transformQuota converts a GPUQuota.
func transformQuota(object any) (any, error) {
	raw, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	var read names.GPUQuota
	out := &knownQuota{ObjectMeta: metav1.ObjectMeta{Name: raw.GetName(), UID: raw.GetUID(), ResourceVersion: raw.GetResourceVersion(), Generation: raw.GetGeneration()}}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, &read); err != nil {
		klog.Background().Error(err, "A GPUQuota cannot be read, and does not count", "gpuQuota", klog.KObj(raw))
		return out, nil
	}
	out.quota, out.usable = gpuquota.QuotaOf(&read), true
	return out, nil
}

// SeedInformer fills the informer's store for a scheduler whose informers do not run, as in a test.
func SeedInformer(factory informers.SharedInformerFactory, quotas ...*names.GPUQuota) error {
	informer, err := informerOf(factory, nil)
	if err != nil {
		return err
	}
	for _, one := range quotas {
		if err := informer.GetStore().Add(&knownQuota{ObjectMeta: metav1.ObjectMeta{Name: one.Name}, quota: gpuquota.QuotaOf(one), usable: true}); err != nil {
			return fmt.Errorf("adding GPUQuota %s: %w", one.Name, err)
		}
	}
	return nil
}

// UseManualUpdates keeps the account up to date through [Quotas.UpdatePod], for a scheduler whose informers do not run, as in a simulation. Without it each
// query recounts everything.
func (q *Quotas) UseManualUpdates() {
	if q.store == nil {
		return
	}
	q.synced = func() bool { return true }
	q.active.Store(len(q.store.ListKeys()) > 0)
	q.outdated.Store(true)
}

// UpdatePod records an added, changed or deleted pod of the informer.
func (q *Quotas) UpdatePod(pod *corev1.Pod) { q.podChanged(pod) }

// quotasChanged schedules a recount with the next query, and a delayed notification.
func (q *Quotas) quotasChanged() {
	q.revision.Add(1)
	q.active.Store(true)
	q.outdated.Store(true)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.timer == nil {
		q.timer = time.AfterFunc(gatherInterval, q.notifyChanged)
	}
}

func (q *Quotas) notifyChanged() {
	q.mu.Lock()
	q.timer = nil
	changed := q.changed
	q.mu.Unlock()
	if changed != nil {
		changed()
	}
}

func (q *Quotas) podChanged(object any) {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	if pod, ok := object.(*corev1.Pod); ok {
		q.withAccount(func(a *gpuquota.Account) { q.recordHolding(a, pod) })
	}
}

// nodeAdded schedules a recount if pods were counted on this node while it was unknown.
func (q *Quotas) nodeAdded(object any) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return
	}
	q.withAccount(func(*gpuquota.Account) {
		if q.unknownNodes[node.Name] {
			q.outdated.Store(true)
		}
	})
}

// nodeChanged schedules a recount when a node changes its pool or GPU type.
func (q *Quotas) nodeChanged(old, object any) {
	before, known := old.(*corev1.Node)
	after, ok := object.(*corev1.Node)
	if known && ok && q.HasAny() && gpuquota.PlaceOf(nil, before) != gpuquota.PlaceOf(nil, after) {
		q.outdated.Store(true)
	}
}
