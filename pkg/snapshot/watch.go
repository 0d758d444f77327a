package snapshot

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// settle is how long a watch gathers changes before it reports them: what belongs together comes in bursts.
const settle = 100 * time.Millisecond

// Watch calls changed with what is wanted as it is, and then after every burst of changes, until ctx ends, whose error it
// returns. changed is never called twice at a time. Beside the watches there are no requests. A watch tries again for
// ever when a right is missing: who wants an error reads first.
func Watch(ctx context.Context, client kubernetes.Interface, changed func(*Snapshot), wants ...Want) error {
	dirty := make(chan struct{}, 1)
	mark := func() {
		select {
		case dirty <- struct{}{}:
		default:
		}
	}
	var fills []func(*Snapshot)
	var synced []cache.InformerSynced
	for _, want := range wants {
		if want.follow == nil {
			return errors.New(string(want.part) + " cannot be watched")
		}
		one := want.follow(ctx, client, mark)
		fills, synced = append(fills, one.fill), append(synced, one.synced)
	}
	if !cache.WaitForCacheSync(ctx.Done(), synced...) {
		return ctx.Err()
	}
	for {
		now := &Snapshot{}
		for _, fill := range fills {
			fill(now)
		}
		changed(now)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-dirty:
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settle):
		}
	}
}

// followed is a list that is kept up to date.
type followed struct {
	synced cache.InformerSynced
	// fill copies it into a snapshot. The objects are shared with the watch.
	fill func(*Snapshot)
}

func follow[T any](ctx context.Context, source cache.ListerWatcher, field func(*Snapshot) *[]T, changed func()) followed {
	object, _ := any(new(T)).(runtime.Object)
	store, controller := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source,
		ObjectType:    object,
		Transform:     withoutManagedFields,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc:    func(any) { changed() },
			UpdateFunc: func(any, any) { changed() },
			DeleteFunc: func(any) { changed() },
		},
	})
	go controller.RunWithContext(ctx)
	return followed{synced: controller.HasSynced, fill: func(s *Snapshot) {
		list := store.List()
		out := make([]T, 0, len(list))
		for _, item := range list {
			if object, ok := item.(*T); ok {
				out = append(out, *object)
			}
		}
		*field(s) = out
	}}
}

func listerWatcher[L runtime.Object](client kubernetes.Interface, of api[L], scope Scope) cache.ListerWatcher {
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			scope.narrow(&options)
			return of.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			scope.narrow(&options)
			return of.Watch(ctx, options)
		},
	}, client)
}

// withoutManagedFields drops what nobody here reads and is a third of many an object.
func withoutManagedFields(object any) (any, error) {
	if accessor, err := meta.Accessor(object); err == nil {
		accessor.SetManagedFields(nil)
	}
	return object, nil
}
