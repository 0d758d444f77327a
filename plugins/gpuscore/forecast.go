package gpuscore

import (
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// forecast is which pods are to be expected, and what that makes of free cards. It never changes.
type forecast struct {
	models   map[model]*fragmentation.Model
	pressure map[gpuType]float64
}

// model tells apart cards on which the same pods leave different rests.
type model struct {
	pool string
	// cardMiB is the memory of a card, 0 if it is unknown.
	cardMiB int64
}

// gpuType is a type of GPU in one pool.
type gpuType struct{ pool, name string }

// ask is what a pod asks for, as far as others are concerned that may come.
type ask struct {
	pool, types         string
	whole, shared       int64
	shareMiB            int64
	milliCPU, memoryMiB int64
}

// class returns an ask as pods on cards of a size see it, or one of no cards if it asks for none of these.
func (a *ask) class(cardMiB int64) fragmentation.Class {
	class := fragmentation.Class{MilliCPU: a.milliCPU, MemoryMiB: a.memoryMiB, Types: a.types}
	switch {
	case a.whole > 0:
		class.Cards, class.Share = a.whole, fragmentation.Whole
	case a.shared > 0 && cardMiB > 0 && a.shareMiB <= cardMiB:
		class.Cards, class.Share = a.shared, thousandths(a.shareMiB, cardMiB)
	}
	return class
}

// thousandths is a part of a card, rounded up.
func thousandths(memoryMiB, cardMiB int64) int64 {
	return (memoryMiB*fragmentation.Whole + cardMiB - 1) / cardMiB
}

// askOf reads a pod. An error of its GPUs is told elsewhere; here such a pod asks for none.
func askOf(pod *corev1.Pod) ask {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	a := ask{milliCPU: requests.Cpu().MilliValue(), memoryMiB: requests.Memory().Value() >> 20}
	demand, err := gpu.DemandOf(pod)
	if err != nil || !demand.NeedsCards() {
		return a
	}
	a.pool, a.whole, a.shared, a.shareMiB = gpu.PodPool(pod), demand.Whole, demand.Shared, demand.ShareMiB
	if accepted, err := gpu.PodTypes(pod); err == nil {
		a.types = strings.Join(slices.Sorted(slices.Values(accepted.Names())), ",")
	}
	return a
}

// forecaster makes a forecast from all pods that run or wait: what there is of each kind now is what is expected to
// come. So nothing need be kept over a restart, and nothing grows with time.
type forecaster struct {
	mu      sync.Mutex
	pace    fragmentation.Pace
	current *forecast
	asks    map[types.UID]ask // what the pods of the last time ask for
}

// next returns the forecast for a pod's attempt. It is made anew every so many attempts.
func (f *forecaster) next(handle fwk.Handle, devices Devices) (*forecast, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.pace.Due() && f.current != nil {
		return f.current, nil
	}
	nodes, err := handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, err
	}
	f.current = newForecast(f.count(handle), nodes, devices)
	return f.current, nil
}

// count counts the pods that run or wait by what they ask for. Pods that have ended are not in the informer.
func (f *forecaster) count(handle fwk.Handle) map[ask]int64 {
	counts, asks := map[ask]int64{}, make(map[types.UID]ask, len(f.asks))
	for _, obj := range handle.SharedInformerFactory().Core().V1().Pods().Informer().GetStore().List() {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			continue
		}
		asked, known := f.asks[pod.UID]
		if !known {
			asked = askOf(pod)
		}
		asks[pod.UID] = asked
		if asked.whole > 0 || asked.shared > 0 {
			counts[asked]++
		}
	}
	f.asks = asks
	return counts
}

func newForecast(counts map[ask]int64, nodes []fwk.NodeInfo, devices Devices) *forecast {
	f := &forecast{models: map[model]*fragmentation.Model{}, pressure: map[gpuType]float64{}}
	capacity := map[string]map[string]int64{} // cards by pool and type
	for _, node := range nodes {
		allocator, _, _ := devices.Cards(node)
		cards := allocator.Healthy().Len()
		if cards == 0 || node.Node() == nil {
			continue
		}
		of := model{pool: gpu.PoolOf(node.Node()), cardMiB: cardMemory(allocator)}
		if f.models[of] == nil {
			f.models[of] = fragmentation.NewModel(of.demand(counts))
		}
		if capacity[of.pool] == nil {
			capacity[of.pool] = map[string]int64{}
		}
		capacity[of.pool][gpu.TypeOf(node.Node())] += int64(cards)
	}
	for pool, types := range capacity {
		largest := model{pool: pool} // any size of card will do to count what names a type
		for of := range maps.Keys(f.models) {
			if of.pool == pool {
				largest.cardMiB = max(largest.cardMiB, of.cardMiB)
			}
		}
		for name, pressure := range fragmentation.Pressure(largest.demand(counts), types) {
			f.pressure[gpuType{pool, name}] = pressure
		}
	}
	return f
}

// demand returns the pods of a pool, as cards of a size see them.
func (m model) demand(counts map[ask]int64) fragmentation.Demand {
	demand := fragmentation.Demand{}
	for asked, pods := range counts {
		if asked.pool == m.pool {
			if class := asked.class(m.cardMiB); class.Cards > 0 {
				demand[class] += pods
			}
		}
	}
	return demand
}

// cardMemory is the memory of a node's first card.
func cardMemory(allocator *gpu.Allocator) int64 {
	if cards := allocator.Inventory().Cards; len(cards) > 0 {
		return cards[0].MemoryMiB
	}
	return 0
}
