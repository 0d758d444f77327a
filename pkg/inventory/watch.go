package inventory

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// settle is how long a watch gathers changes before it reports them: what belongs together comes in bursts.
const settle = 100 * time.Millisecond

// WatchJobs calls changed with all jobs of the query, first as they are and then after every change, until ctx ends.
// It reads before it watches, so that a missing right is an error and not silence.
func (r *Reader) WatchJobs(ctx context.Context, query JobQuery, changed func([]Job)) error {
	jobs, err := r.Jobs(ctx, query)
	if err != nil {
		return err
	}
	changed(jobs)
	labelled := func(o *metav1.ListOptions) { o.LabelSelector = query.selector() }
	refused := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("reason", reasonFailedCreate).String()
	}
	core := r.client.CoreV1().RESTClient()
	stores := watchAll(ctx, query.Namespace, []source{
		{core, "pods", &corev1.Pod{}, labelled},
		{r.client.BatchV1().RESTClient(), "jobs", &batchv1.Job{}, labelled},
		{r.client.AppsV1().RESTClient(), "deployments", &appsv1.Deployment{}, labelled},
		{core, "events", &corev1.Event{}, refused},
	})
	return stores.each(ctx, func() {
		changed(Build(Objects{
			Pods:        contents[corev1.Pod](stores.stores[0]),
			Jobs:        contents[batchv1.Job](stores.stores[1]),
			Deployments: contents[appsv1.Deployment](stores.stores[2]),
			Events:      contents[corev1.Event](stores.stores[3]),
		}).Jobs)
	})
}

// WatchFleet calls changed with the nodes and pools, as WatchJobs does with jobs.
func (r *Reader) WatchFleet(ctx context.Context, changed func(Cluster)) error {
	cluster, err := r.Fleet(ctx)
	if err != nil {
		return err
	}
	changed(cluster)
	core := r.client.CoreV1().RESTClient()
	stores := watchAll(ctx, metav1.NamespaceAll, []source{
		{core, "nodes", &corev1.Node{}, func(*metav1.ListOptions) {}},
		{core, "pods", &corev1.Pod{}, func(o *metav1.ListOptions) { o.FieldSelector = HoldsNode }},
	})
	return stores.each(ctx, func() {
		changed(Build(Objects{
			Nodes: contents[corev1.Node](stores.stores[0]),
			Pods:  contents[corev1.Pod](stores.stores[1]),
		}))
	})
}

// source is one resource to watch.
type source struct {
	client   rest.Interface
	resource string
	object   runtime.Object
	tweak    func(*metav1.ListOptions)
}

// watched are the stores of several sources, in their order, and a signal that any of them changed.
type watched struct {
	stores []cache.Store
	synced []cache.InformerSynced
	dirty  chan struct{}
}

// watchAll keeps a store of each source up to date until ctx ends.
func watchAll(ctx context.Context, namespace string, sources []source) *watched {
	w := &watched{dirty: make(chan struct{}, 1)}
	mark := func() {
		select {
		case w.dirty <- struct{}{}:
		default:
		}
	}
	for _, s := range sources {
		store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
			ListerWatcher: cache.NewFilteredListWatchFromClient(s.client, s.resource, namespace, s.tweak),
			ObjectType:    s.object,
			Transform:     withoutManagedFields,
			Handler: cache.ResourceEventHandlerFuncs{
				AddFunc:    func(any) { mark() },
				UpdateFunc: func(any, any) { mark() },
				DeleteFunc: func(any) { mark() },
			},
		})
		w.stores = append(w.stores, store)
		w.synced = append(w.synced, controller.HasSynced)
		go controller.RunWithContext(ctx)
	}
	return w
}

// withoutManagedFields drops what nobody here reads and is a third of many an object.
func withoutManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}

// each calls report once the stores are filled and then after every burst of changes. It returns ctx's error.
func (w *watched) each(ctx context.Context, report func()) error {
	if !cache.WaitForCacheSync(ctx.Done(), w.synced...) {
		return ctx.Err()
	}
	for {
		report()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.dirty:
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settle):
		}
	}
}

// contents copies the objects of a store. They are shared with the watch, and only read.
func contents[T any](store cache.Store) []T {
	list := store.List()
	out := make([]T, 0, len(list))
	for _, item := range list {
		if object, ok := item.(*T); ok {
			out = append(out, *object)
		}
	}
	return out
}
