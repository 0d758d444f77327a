package coscheduling

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
)

// groups are the PodGroups of the cluster, from memory. Nothing that asks them waits for anything.
type groups struct{ informer cache.SharedIndexInformer }

// get returns a PodGroup, nil if there is none.
func (g groups) get(name types.NamespacedName) *podGroup {
	object, found, err := g.informer.GetIndexer().GetByKey(name.String())
	if group, ok := object.(*podGroup); ok && found && err == nil {
		return group
	}
	return nil
}

// groupsOf returns the PodGroups that a scheduler's informers follow. They are one of its informers, so it waits for them
// before its first cycle. Objects are read without their types, one by one: a typed client gives up a whole list for one
// number that does not fit in a field.
func groupsOf(factory informers.SharedInformerFactory, client func() (dynamic.Interface, error)) (groups, error) {
	var failed error
	informer := factory.InformerFor(&keyOfGroups{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		var api dynamic.Interface
		api, failed = client()
		return cache.NewSharedIndexInformer(&podGroupsOrNone{client: api}, &unstructured.Unstructured{}, 0, cache.Indexers{})
	})
	if failed != nil {
		return groups{}, fmt.Errorf("building the client of PodGroups: %w", failed)
	}
	if err := informer.SetTransform(keepRules); err != nil {
		return groups{}, fmt.Errorf("following PodGroups: %w", err)
	}
	return groups{informer: informer}, nil
}

// keyOfGroups is the type by which informers.SharedInformerFactory knows our informer from all others.
type keyOfGroups struct{ unstructured.Unstructured }

// keepRules keeps of a PodGroup what is asked for.
func keepRules(object any) (any, error) {
	if group, ok := object.(*unstructured.Unstructured); ok {
		return readPodGroup(group), nil
	}
	return object, nil
}

// Know tells a scheduler whose informers do not run, as in a simulation, which PodGroups there are.
func Know(factory informers.SharedInformerFactory, known []*v1alpha1.PodGroup) error {
	all, err := groupsOf(factory, noClient)
	if err != nil {
		return err
	}
	for _, group := range known {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(group)
		if err != nil {
			return fmt.Errorf("reading PodGroup %s/%s: %w", group.Namespace, group.Name, err)
		}
		if err := all.informer.GetIndexer().Add(readPodGroup(&unstructured.Unstructured{Object: object})); err != nil {
			return fmt.Errorf("adding PodGroup %s/%s: %w", group.Namespace, group.Name, err)
		}
	}
	return nil
}

func noClient() (dynamic.Interface, error) { return nil, nil }

func clientFor(config *rest.Config) func() (dynamic.Interface, error) {
	return func() (dynamic.Interface, error) {
		if config == nil {
			return nil, errors.New("the scheduler has no configuration of a client")
		}
		return dynamic.NewForConfig(config)
	}
}

// podGroupsOrNone lists and watches PodGroups. Where the cluster knows no such kind, or does not let the scheduler read
// it, there are none, which is looked at again from time to time: a cluster without gangs needs no CRD.
type podGroupsOrNone struct {
	client dynamic.Interface
	// seen is set when PodGroups could be listed once. From then on a refusal is a fault of the API server's that passes,
	// such as one that starts and does not know the roles yet.
	seen atomic.Bool
	// told is set while the log says that there are none.
	told atomic.Bool
}

// lookAgain is how long a cluster is taken to know no PodGroups.
const lookAgain = 10 * time.Second

// resourceVersionOfNone is that of the list where there are no PodGroups: no API server gives it out.
const resourceVersionOfNone = "none"

var podGroups = v1alpha1.SchemeGroupVersion.WithResource("podgroups")

// List implements cache.ListerWatcher.
func (p *podGroupsOrNone) List(options metav1.ListOptions) (runtime.Object, error) {
	return p.ListWithContext(context.Background(), options)
}

// ListWithContext implements cache.ListerWatcherWithContext.
func (p *podGroupsOrNone) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.ResourceVersion == resourceVersionOfNone {
		options.ResourceVersion = ""
	}
	list, err := p.client.Resource(podGroups).List(ctx, options)
	switch {
	case err == nil:
		p.seen.Store(true)
		p.told.Store(false)
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err) && !p.seen.Load():
		if !p.told.Swap(true) {
			klog.FromContext(ctx).Info("There are no PodGroups to read, so the pods of gangs wait", "err", err)
		}
		none := &unstructured.UnstructuredList{}
		none.SetResourceVersion(resourceVersionOfNone)
		return none, nil
	}
	return list, err
}

// Watch implements cache.ListerWatcher.
func (p *podGroupsOrNone) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return p.WatchWithContext(context.Background(), options)
}

// WatchWithContext implements cache.ListerWatcherWithContext.
func (p *podGroupsOrNone) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if options.ResourceVersion != resourceVersionOfNone {
		changes, err := p.client.Resource(podGroups).Watch(ctx, options)
		if apierrors.IsNotFound(err) {
			return nil, expired() // it has been taken away: list again, and find none
		}
		return changes, err
	}
	later := watch.NewRaceFreeFake()
	time.AfterFunc(lookAgain, func() {
		later.Error(ptr.To(expired().Status()))
		later.Stop()
	})
	return later, nil
}

// IsWatchListSemanticsUnSupported tells client-go to list before it watches: a list can be empty instead of missing.
func (*podGroupsOrNone) IsWatchListSemanticsUnSupported() bool { return true }

// expired has client-go list anew.
func expired() *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired, Message: "looking for PodGroups again",
	}}
}
