// Package optional reads objects of kinds that a cluster need not have.
package optional

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// Kind lists and watches the objects of a kind. If the cluster does not have the kind, or does not let the scheduler read it, there are none,
// which is checked again from time to time: a cluster that does not use it needs no CRD.
type Kind struct {
	Client   dynamic.Interface
	Resource schema.GroupVersionResource
	// Consequence is the consequence of a missing kind, for the log.
	Consequence string
	// Reduce returns the reduced form of an object, nil keeps all of it. The rest is dropped page by page, so a list of very many costs little
	// memory. The result must be a [metav1.Object].
	Reduce func(*unstructured.Unstructured) runtime.Object
	// Rare says that most clusters do not have the kind: its absence is not logged.
	Rare bool
	// wasListed is set after the first successful list. From then on a refusal is a temporary fault of the API server, such as one that starts and
	// does not know the roles yet.
	wasListed atomic.Bool
	// loggedReason is the logged reason for the absence.
	loggedReason atomic.Int32
}

// maxRetryInterval is how often a cluster without the kind is queried again. It is queried sooner in the beginning, after minRetryInterval and
// twice that and so on: an API server that starts refuses everything, as it does not know the roles yet.
const maxRetryInterval, minRetryInterval = 10 * time.Second, time.Second

// resourceVersionOfNone is that of the list without a kind: no API server uses it.
const resourceVersionOfNone = "none"

// IsServed reports whether the cluster serves the kind that an informer watches by a [Kind], and lets it be read.
func IsServed(informer cache.SharedInformer) bool {
	revision := informer.LastSyncResourceVersion()
	return revision != "" && revision != resourceVersionOfNone
}

// List implements cache.ListerWatcher.
func (k *Kind) List(options metav1.ListOptions) (runtime.Object, error) {
	return k.ListWithContext(context.Background(), options)
}

// ListWithContext implements cache.ListerWatcherWithContext.
func (k *Kind) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.ResourceVersion == resourceVersionOfNone {
		options.ResourceVersion = ""
	}
	list, err := k.listAll(ctx, options)
	switch {
	case err == nil:
		k.wasListed.Store(true)
		k.loggedReason.Store(loggedNothing)
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err) && !k.wasListed.Load():
		k.logAbsence(klog.FromContext(ctx), err)
		none := &unstructured.UnstructuredList{}
		none.SetResourceVersion(resourceVersionOfNone)
		return none, nil
	}
	return list, err
}

// pageSize is how many objects are read at a time if they are reduced.
const pageSize = 500

// listAll reads all objects, in pages if they are reduced: otherwise they would all be in memory at once, because the API server's cache returns
// the whole list whatever the limit.
func (k *Kind) listAll(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if k.Reduce == nil {
		return k.Client.Resource(k.Resource).List(ctx, options) //nolint:wrapcheck // it is in the client's place
	}
	kept := &ReducedList{}
	options.ResourceVersion, options.ResourceVersionMatch, options.Limit = "", "", pageSize
	for {
		page, err := k.Client.Resource(k.Resource).List(ctx, options)
		if err != nil {
			return nil, err //nolint:wrapcheck // it is in the client's place
		}
		for i := range page.Items {
			kept.Items = append(kept.Items, k.Reduce(&page.Items[i]))
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			kept.ResourceVersion = page.GetResourceVersion()
			return kept, nil
		}
	}
}

// ReducedList is a list of reduced objects.
type ReducedList struct {
	metav1.TypeMeta
	metav1.ListMeta

	Items []runtime.Object
}

// DeepCopyObject implements runtime.Object. Its items are never changed.
func (k *ReducedList) DeepCopyObject() runtime.Object {
	out := *k
	out.Items = slices.Clone(k.Items)
	return &out
}

// Logged reasons for the absence of a kind.
const (
	loggedNothing int32 = iota
	loggedUnknown
	loggedForbidden
)

// logAbsence logs once why there are none. A missing kind is normal in many clusters; a forbidden one is an installation error of the scheduler,
// which nothing else would report.
func (k *Kind) logAbsence(log klog.Logger, err error) {
	why := loggedUnknown
	if apierrors.IsForbidden(err) {
		why = loggedForbidden
	}
	if k.loggedReason.Swap(why) == why {
		return
	}
	if why == loggedForbidden {
		log.Error(err, "The scheduler may not read "+k.Resource.Resource+", which needs its ClusterRole applied again: "+k.Consequence)
		return
	}
	if k.Rare {
		return
	}
	log.Info("There are no "+k.Resource.Resource+" to read: "+k.Consequence, "err", err)
}

// Watch implements cache.ListerWatcher.
func (k *Kind) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return k.WatchWithContext(context.Background(), options)
}

// WatchWithContext implements cache.ListerWatcherWithContext.
func (k *Kind) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if options.ResourceVersion != resourceVersionOfNone {
		changes, err := k.Client.Resource(k.Resource).Watch(ctx, options)
		if apierrors.IsNotFound(err) {
			return nil, newExpiredError() // it has been removed: list again, and find none
		}
		if err != nil || k.Reduce == nil {
			return changes, err
		}
		return k.reduceChanges(changes), nil
	}
	later := watch.NewRaceFreeFake()
	go func() {
		defer later.Stop()
		if k.waitUntilServed(ctx, later) {
			later.Error(ptr.To(newExpiredError().Status()))
		}
	}()
	return later, nil
}

// reduceChanges reduces each object of a watch. Stopping either watch stops the other. [watch.Filter] does not: its goroutine blocks forever if
// its watch is stopped while it passes a change on.
func (k *Kind) reduceChanges(changes watch.Interface) watch.Interface {
	out := make(chan watch.Event)
	kept := watch.NewProxyWatcher(out)
	go func() {
		defer close(out)
		defer changes.Stop()
		for {
			select {
			case event, more := <-changes.ResultChan():
				if !more {
					return
				}
				if object, ok := event.Object.(*unstructured.Unstructured); ok {
					event.Object = k.Reduce(object)
				}
				select {
				case out <- event:
				case <-kept.StopChan():
					return
				}
			case <-kept.StopChan():
				return
			}
		}
	}()
	return kept
}

// waitUntilServed returns true when the objects can be listed, and false when that is no longer of interest. It polls by itself, since client-go
// waits longer each time that it has to list again.
func (k *Kind) waitUntilServed(ctx context.Context, until *watch.RaceFreeFakeWatcher) bool {
	for look := minRetryInterval; !until.IsStopped(); look = min(2*look, maxRetryInterval) {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(look):
		}
		if _, err := k.Client.Resource(k.Resource).List(ctx, metav1.ListOptions{Limit: 1}); err == nil {
			return true
		}
	}
	return false
}

// IsWatchListSemanticsUnSupported makes client-go list before it watches: a list can be empty instead of missing.
func (*Kind) IsWatchListSemanticsUnSupported() bool { return true }

// newExpiredError makes client-go list again.
func newExpiredError() *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "looking again",
	}}
}
