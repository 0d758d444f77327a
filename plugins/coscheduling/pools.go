package coscheduling

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/optional"
)

var gpuPools = names.SchemeGroupVersion.WithResource("gpupools")

// pools are what the GPUPools of the cluster say of preemption, from memory.
type pools struct{ informer cache.SharedIndexInformer }

// poolRules is what is kept of a GPUPool.
type poolRules struct {
	metav1.ObjectMeta

	minRuntimes names.MinRuntimes
}

// minRuntimes are those of a pool. One without a GPUPool has what a GPUPool has that says nothing.
func (p pools) minRuntimes(pool string) names.MinRuntimes {
	object, found, err := p.informer.GetIndexer().GetByKey(pool)
	if rules, ok := object.(*poolRules); ok && found && err == nil {
		return rules.minRuntimes
	}
	return (&names.PoolDefaults{}).MinRuntimes()
}

// poolsOf returns the GPUPools that a scheduler's informers follow, as [groupsOf] does PodGroups.
func poolsOf(factory informers.SharedInformerFactory, client func() (dynamic.Interface, error)) (pools, error) {
	var failed error
	informer := factory.InformerFor(&keyOfPools{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		var api dynamic.Interface
		api, failed = client()
		source := &optional.Kind{Client: api, Resource: gpuPools, Without: "no pod has a min-runtime"}
		return cache.NewSharedIndexInformer(source, &unstructured.Unstructured{}, 0, cache.Indexers{})
	})
	if failed != nil {
		return pools{}, fmt.Errorf("building the client of GPUPools: %w", failed)
	}
	if err := informer.SetTransform(keepPoolRules); err != nil {
		return pools{}, fmt.Errorf("following GPUPools: %w", err)
	}
	return pools{informer: informer}, nil
}

// keyOfPools is the type by which informers.SharedInformerFactory knows our informer from all others.
type keyOfPools struct{ unstructured.Unstructured }

// keepPoolRules keeps of a GPUPool what is asked for.
func keepPoolRules(object any) (any, error) {
	if pool, ok := object.(*unstructured.Unstructured); ok {
		return readPool(pool), nil
	}
	return object, nil
}

// readPool reads what an administrator wrote: what is no text is as if it was not there.
func readPool(pool *unstructured.Unstructured) *poolRules {
	least, _, _ := unstructured.NestedString(pool.Object, "spec", "defaults", "minRuntime")
	most, _, _ := unstructured.NestedString(pool.Object, "spec", "defaults", "maxMinRuntime")
	meta := metav1.ObjectMeta{Name: pool.GetName(), UID: pool.GetUID(), ResourceVersion: pool.GetResourceVersion()}
	return rulesOf(meta, names.PoolDefaults{MinRuntime: least, MaxMinRuntime: most})
}

func rulesOf(meta metav1.ObjectMeta, says names.PoolDefaults) *poolRules {
	return &poolRules{ObjectMeta: meta, minRuntimes: says.MinRuntimes()}
}
