package coscheduling

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/follow"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
	"g8s.host/gpu-scheduler/pkg/preemption"
)

// RegisterGroups adds PodGroups and GPUPools to a scheduler whose informers do not run, as in a simulation.
func RegisterGroups(factory informers.SharedInformerFactory, known []*v1alpha1.PodGroup, declared ...*names.GPUPool) error {
	all, err := follow.NewGroups(factory, follow.NoClient)
	if err != nil {
		return err
	}
	pools, err := preemption.NewPools(factory, follow.NoClient)
	if err != nil {
		return err
	}
	for _, pool := range declared {
		if err := pools.AddPool(pool.ObjectMeta, pool.Spec.Defaults); err != nil {
			return fmt.Errorf("adding GPUPool %s: %w", pool.Name, err)
		}
	}
	for _, group := range known {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(group)
		if err != nil {
			return fmt.Errorf("reading PodGroup %s/%s: %w", group.Namespace, group.Name, err)
		}
		if err := all.PodGroups.GetIndexer().Add(podgroup.Read(&unstructured.Unstructured{Object: object})); err != nil {
			return fmt.Errorf("adding PodGroup %s/%s: %w", group.Namespace, group.Name, err)
		}
	}
	return nil
}
