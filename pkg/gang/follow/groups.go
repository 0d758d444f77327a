// Package follow keeps what a scheduler knows of the groups of its gangs: the PodGroups that pods name, the workloads whose pods are recognized, and the
// members that have succeeded. It reads them by the scheduler's informers; lookups never block.
package follow

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	pkggang "g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
	"g8s.host/gpu-scheduler/pkg/optional"
)

var podGroups = v1alpha1.SchemeGroupVersion.WithResource("podgroups")

// Groups are the gangs' groups of the cluster, from memory. Lookups never block.
type Groups struct {
	// PodGroups watches the PodGroups that pods name by a label.
	PodGroups cache.SharedIndexInformer
	// Workloads are the objects whose pods are recognized, by kind.
	Workloads map[string][]Workloads
}

// GetGroup returns a group, nil if there is none.
func (g Groups) GetGroup(name types.NamespacedName) *podgroup.Group {
	if m, ok := pkggang.Parse(name.Name); ok {
		return g.recognizedGroup(name.Namespace, m)
	}
	object, found, err := g.PodGroups.GetIndexer().GetByKey(name.String())
	if group, ok := object.(*podgroup.Group); ok && found && err == nil {
		return group
	}
	return nil
}

// NewGroups adds the PodGroups to the scheduler's informers, so that the scheduler waits for them before its first cycle. Objects are parsed
// untyped, one by one: a typed client rejects a whole list for one number that does not fit in a field.
func NewGroups(factory informers.SharedInformerFactory, client func() (dynamic.Interface, error)) (Groups, error) {
	var failed error
	informer := factory.InformerFor(&keyOfGroups{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		var api dynamic.Interface
		api, failed = client()
		return cache.NewSharedIndexInformer(&optional.Kind{Client: api, Resource: podGroups, Consequence: "the pods of gangs wait"}, &unstructured.Unstructured{}, 0, cache.Indexers{})
	})
	if failed != nil {
		return Groups{}, fmt.Errorf("building the client of PodGroups: %w", failed)
	}
	if err := informer.SetTransform(keepRules); err != nil {
		return Groups{}, fmt.Errorf("following PodGroups: %w", err)
	}
	recognized, err := newWorkloads(factory, client)
	return Groups{PodGroups: informer, Workloads: recognized}, err
}

// keyOfGroups is the type that distinguishes our informer in informers.SharedInformerFactory.
type keyOfGroups struct{ unstructured.Unstructured }

// keepRules reduces a PodGroup to the fields that are used.
func keepRules(object any) (any, error) {
	if group, ok := object.(*unstructured.Unstructured); ok {
		return podgroup.Read(group), nil
	}
	return object, nil
}

// NoClient is the client of a scheduler whose informers do not run, as in a simulation.
func NoClient() (dynamic.Interface, error) { return nil, nil }

// ClientFor returns what builds the client of objects without a Go type.
func ClientFor(config *rest.Config) func() (dynamic.Interface, error) {
	return func() (dynamic.Interface, error) {
		if config == nil {
			return nil, errors.New("the scheduler has no configuration of a client")
		}
		return dynamic.NewForConfig(config)
	}
}
