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
	graces      names.CheckpointGraces
}

// minRuntimes are those of a pool, and graces what its pods have to save their work.
func (p pools) minRuntimes(pool string) names.MinRuntimes { return p.rulesOf(pool).minRuntimes }

func (p pools) graces(pool string) names.CheckpointGraces { return p.rulesOf(pool).graces }

// rulesOf is what a pool says. One without a GPUPool has what a GPUPool has that says nothing.
func (p pools) rulesOf(pool string) *poolRules {
	object, found, err := p.informer.GetIndexer().GetByKey(pool)
	if rules, ok := object.(*poolRules); ok && found && err == nil {
		return rules
	}
	return usualRules
}

// usualRules are those of a pool without a GPUPool, which are asked for with each pod.
var usualRules = rulesOf(metav1.ObjectMeta{}, names.PoolDefaults{})

// poolsOf returns the GPUPools that a scheduler's informers follow, as [groupsOf] does PodGroups.
func poolsOf(factory informers.SharedInformerFactory, client func() (dynamic.Interface, error)) (pools, error) {
	var failed error
	informer := factory.InformerFor(&keyOfPools{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		var api dynamic.Interface
		api, failed = client()
		source := &optional.Kind{Client: api, Resource: gpuPools, Without: "no pod has a min-runtime, and each has the usual time to save its work"}
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
	says := func(field string) string {
		text, _, _ := unstructured.NestedString(pool.Object, "spec", "defaults", field)
		return text
	}
	meta := metav1.ObjectMeta{Name: pool.GetName(), UID: pool.GetUID(), ResourceVersion: pool.GetResourceVersion()}
	return rulesOf(meta, names.PoolDefaults{
		MinRuntime: says("minRuntime"), MaxMinRuntime: says("maxMinRuntime"),
		CheckpointGrace: says("checkpointGrace"), MaxCheckpointGrace: says("maxCheckpointGrace"),
	})
}

func rulesOf(meta metav1.ObjectMeta, says names.PoolDefaults) *poolRules {
	return &poolRules{ObjectMeta: meta, minRuntimes: says.MinRuntimes(), graces: says.CheckpointGraces()}
}
