package preemption

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

// Pools are the preemption settings of the cluster's GPUPools, from memory.
type Pools struct{ informer cache.SharedIndexInformer }

// poolRules is what is kept of a GPUPool.
type poolRules struct {
	metav1.ObjectMeta

	minRuntimes names.MinRuntimes
	graces      names.CheckpointGraces
}

// MinRuntimesOf returns the min-runtimes of a pool, and GracesOf the time that its pods have to save their work.
func (p Pools) MinRuntimesOf(pool string) names.MinRuntimes { return p.rulesOf(pool).minRuntimes }

func (p Pools) GracesOf(pool string) names.CheckpointGraces { return p.rulesOf(pool).graces }

// rulesOf returns the settings of a pool. A pool without a GPUPool has the defaults of an empty GPUPool.
func (p Pools) rulesOf(pool string) *poolRules {
	object, found, err := p.informer.GetIndexer().GetByKey(pool)
	if rules, ok := object.(*poolRules); ok && found && err == nil {
		return rules
	}
	return defaultRules
}

// defaultRules are the settings of a pool without a GPUPool, which are looked up for each pod.
var defaultRules = newPoolRules(metav1.ObjectMeta{}, names.PoolDefaults{})

// NewPools adds the GPUPools to the scheduler's informers.
func NewPools(factory informers.SharedInformerFactory, client func() (dynamic.Interface, error)) (Pools, error) {
	var failed error
	informer := factory.InformerFor(&keyOfPools{}, func(kubernetes.Interface, time.Duration) cache.SharedIndexInformer {
		var api dynamic.Interface
		api, failed = client()
		source := &optional.Kind{Client: api, Resource: gpuPools, Consequence: "no pod has a min-runtime, and each has the usual time to save its work"}
		return cache.NewSharedIndexInformer(source, &unstructured.Unstructured{}, 0, cache.Indexers{})
	})
	if failed != nil {
		return Pools{}, fmt.Errorf("building the client of GPUPools: %w", failed)
	}
	if err := informer.SetTransform(keepPoolRules); err != nil {
		return Pools{}, fmt.Errorf("following GPUPools: %w", err)
	}
	return Pools{informer: informer}, nil
}

// keyOfPools is the type that distinguishes our informer in informers.SharedInformerFactory.
type keyOfPools struct{ unstructured.Unstructured }

// keepPoolRules reduces a GPUPool to the fields that are used.
func keepPoolRules(object any) (any, error) {
	if pool, ok := object.(*unstructured.Unstructured); ok {
		return readPool(pool), nil
	}
	return object, nil
}

// readPool parses what an administrator wrote. A value that is not a string is ignored.
func readPool(pool *unstructured.Unstructured) *poolRules {
	says := func(field string) string {
		text, _, _ := unstructured.NestedString(pool.Object, "spec", "defaults", field)
		return text
	}
	meta := metav1.ObjectMeta{Name: pool.GetName(), UID: pool.GetUID(), ResourceVersion: pool.GetResourceVersion()}
	return newPoolRules(meta, names.PoolDefaults{
		MinRuntime: says("minRuntime"), MaxMinRuntime: says("maxMinRuntime"),
		CheckpointGrace: says("checkpointGrace"), MaxCheckpointGrace: says("maxCheckpointGrace"),
	})
}

// AddPool adds a GPUPool where the informers do not run, as in a simulation.
func (p Pools) AddPool(meta metav1.ObjectMeta, defaults names.PoolDefaults) error {
	return p.informer.GetIndexer().Add(newPoolRules(meta, defaults))
}

func newPoolRules(meta metav1.ObjectMeta, says names.PoolDefaults) *poolRules {
	return &poolRules{ObjectMeta: meta, minRuntimes: says.MinRuntimes(), graces: says.CheckpointGraces()}
}
