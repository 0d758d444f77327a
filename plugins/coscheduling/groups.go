package coscheduling

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	pkggang "g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/optional"
)

var podGroups = v1alpha1.SchemeGroupVersion.WithResource("podgroups")

// groups are the gangs' groups of the cluster, from memory. Lookups never block.
type groups struct {
	// informer watches the PodGroups that pods name by a label.
	informer cache.SharedIndexInformer
	// workloads are the objects whose pods are recognized, by kind.
	workloads map[string][]workloads
}

// getGroup returns a group, nil if there is none.
func (g groups) getGroup(name types.NamespacedName) *podGroup {
	if m, ok := pkggang.Parse(name.Name); ok {
		return g.recognizedGroup(name.Namespace, m)
	}
	object, found, err := g.informer.GetIndexer().GetByKey(name.String())
	if group, ok := object.(*podGroup); ok && found && err == nil {
		return group
	}
	return nil
}

// newGroups adds the PodGroups to the scheduler's informers, so that the scheduler waits for them before its first cycle. Objects are parsed
// untyped, one by one: a typed client rejects a whole list for one number that does not fit in a field.
func newGroups(factory informers.SharedInformerFactory, client func() (dynamic.Interface, error)) (groups, error) {
	var failed error
	informer := factory.InformerFor(&keyOfGroups{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		var api dynamic.Interface
		api, failed = client()
		return cache.NewSharedIndexInformer(&optional.Kind{Client: api, Resource: podGroups, Consequence: "the pods of gangs wait"}, &unstructured.Unstructured{}, 0, cache.Indexers{})
	})
	if failed != nil {
		return groups{}, fmt.Errorf("building the client of PodGroups: %w", failed)
	}
	if err := informer.SetTransform(keepRules); err != nil {
		return groups{}, fmt.Errorf("following PodGroups: %w", err)
	}
	recognized, err := newWorkloads(factory, client)
	return groups{informer: informer, workloads: recognized}, err
}

// keyOfGroups is the type that distinguishes our informer in informers.SharedInformerFactory.
type keyOfGroups struct{ unstructured.Unstructured }

// keepRules reduces a PodGroup to the fields that are used.
func keepRules(object any) (any, error) {
	if group, ok := object.(*unstructured.Unstructured); ok {
		return readPodGroup(group), nil
	}
	return object, nil
}

// RegisterGroups adds PodGroups and GPUPools to a scheduler whose informers do not run, as in a simulation.
func RegisterGroups(factory informers.SharedInformerFactory, known []*v1alpha1.PodGroup, declared ...*names.GPUPool) error {
	all, err := newGroups(factory, noClient)
	if err != nil {
		return err
	}
	pools, err := newPools(factory, noClient)
	if err != nil {
		return err
	}
	for _, pool := range declared {
		if err := pools.informer.GetIndexer().Add(newPoolRules(pool.ObjectMeta, pool.Spec.Defaults)); err != nil {
			return fmt.Errorf("adding GPUPool %s: %w", pool.Name, err)
		}
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
