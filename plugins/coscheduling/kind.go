package coscheduling

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// kindOrNone lists and watches the objects of a kind. Where the cluster knows no such kind, or does not let the scheduler
// read it, there are none, which is looked at again from time to time: a cluster that does not use it needs no CRD.
type kindOrNone struct {
	client   dynamic.Interface
	resource schema.GroupVersionResource
	// without is what comes of it where there are none.
	without string
	// seen is set when they could be listed once. From then on a refusal is a fault of the API server's that passes,
	// such as one that starts and does not know the roles yet.
	seen atomic.Bool
	// told is set while the log says that there are none.
	told atomic.Bool
}

// lookAgain is how often a cluster that knows no such kind is asked again. It is asked sooner in the beginning, after
// soonestLook and twice that and so on: an API server that starts refuses all, as it does not know the roles yet.
const lookAgain, soonestLook = 10 * time.Second, time.Second

// resourceVersionOfNone is that of the list where there is no such kind: no API server gives it out.
const resourceVersionOfNone = "none"

// List implements cache.ListerWatcher.
func (k *kindOrNone) List(options metav1.ListOptions) (runtime.Object, error) {
	return k.ListWithContext(context.Background(), options)
}

// ListWithContext implements cache.ListerWatcherWithContext.
func (k *kindOrNone) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.ResourceVersion == resourceVersionOfNone {
		options.ResourceVersion = ""
	}
	list, err := k.client.Resource(k.resource).List(ctx, options)
	switch {
	case err == nil:
		k.seen.Store(true)
		k.told.Store(false)
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err) && !k.seen.Load():
		if !k.told.Swap(true) {
			klog.FromContext(ctx).Info("There are no "+k.resource.Resource+" to read: "+k.without, "err", err)
		}
		none := &unstructured.UnstructuredList{}
		none.SetResourceVersion(resourceVersionOfNone)
		return none, nil
	}
	return list, err
}

// Watch implements cache.ListerWatcher.
func (k *kindOrNone) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return k.WatchWithContext(context.Background(), options)
}

// WatchWithContext implements cache.ListerWatcherWithContext.
func (k *kindOrNone) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if options.ResourceVersion != resourceVersionOfNone {
		changes, err := k.client.Resource(k.resource).Watch(ctx, options)
		if apierrors.IsNotFound(err) {
			return nil, expired() // it has been taken away: list again, and find none
		}
		return changes, err
	}
	later := watch.NewRaceFreeFake()
	go func() {
		defer later.Stop()
		if k.appears(ctx, later) {
			later.Error(ptr.To(expired().Status()))
		}
	}()
	return later, nil
}

// appears returns true when the objects can be listed, and false when nobody wants to know it any more. It asks by itself,
// since client-go waits longer each time that it has to list again.
func (k *kindOrNone) appears(ctx context.Context, until *watch.RaceFreeFakeWatcher) bool {
	for look := soonestLook; !until.IsStopped(); look = min(2*look, lookAgain) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(look):
		}
		if _, err := k.client.Resource(k.resource).List(ctx, metav1.ListOptions{Limit: 1}); err == nil {
			return true
		}
	}
	return false
}

// IsWatchListSemanticsUnSupported tells client-go to list before it watches: a list can be empty instead of missing.
func (*kindOrNone) IsWatchListSemanticsUnSupported() bool { return true }

// expired has client-go list again.
func expired() *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "looking again",
	}}
}
