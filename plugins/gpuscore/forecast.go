package gpuscore

import (
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// forecast is which pods are to be expected, and what that makes of free cards. It never changes.
type forecast struct {
	models   map[model]*fragmentation.Model
	pressure map[gpuType]float64
	scarcity map[gpuShape]float64
	kept     map[string]fragmentation.Kept // by pool
}

// model tells apart cards on which the same pods leave different rests.
type model struct {
	pool string
	// cardMiB is the memory of a card, 0 if it is unknown.
	cardMiB int64
}

// gpuType is a type of GPU in one pool.
type gpuType struct{ pool, name string }

// gpuShape is a shape of node in one pool.
type gpuShape struct {
	pool string
	fragmentation.Shape
}

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

// none reports whether an ask is for no cards.
func (a *ask) none() bool { return a.whole <= 0 && a.shared <= 0 }

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
// come. So nothing need be kept over a restart, and nothing grows with time. How many pods leave for each that comes it
// learns anew.
type forecaster struct {
	mu       sync.Mutex
	pace     fragmentation.Pace
	current  *forecast
	register register
}

// next returns the forecast for the attempt of some number. It is made anew every so many of them.
func (f *forecaster) next(handle fwk.Handle, devices Devices, number int64) (*forecast, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.pace.DueAt(number, int64(len(f.register.residents))) && f.current != nil {
		return f.current, nil
	}
	nodes, err := handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, err
	}
	pods := handle.SharedInformerFactory().Core().V1().Pods().Informer().GetStore().List()
	f.current = newForecast(f.register.count(pods), nodes, devices)
	return f.current, nil
}

func newForecast(c census, nodes []fwk.NodeInfo, devices Devices) *forecast {
	pools := map[string]*pool{}
	for _, node := range nodes {
		allocator, _, _ := devices.Cards(node)
		if allocator.Healthy() == 0 || node.Node() == nil {
			continue
		}
		name := gpu.PoolOf(node.Node())
		if pools[name] == nil {
			pools[name] = &pool{
				name: name, capacity: map[string]int64{}, sizes: map[int64]struct{}{}, shapes: map[fragmentation.Shape]int64{},
			}
		}
		pools[name].add(node, allocator)
	}
	f := &forecast{
		models: map[model]*fragmentation.Model{}, pressure: map[gpuType]float64{}, scarcity: map[gpuShape]float64{},
		kept: map[string]fragmentation.Kept{},
	}
	for name, p := range pools {
		largest := int64(0) // any size of card will do to count what names a type
		for size := range p.sizes {
			f.models[model{name, size}] = fragmentation.NewModel(p.demand(c.pods, size), c.turnover[name])
			largest = max(largest, size)
		}
		demand := p.demand(c.pods, largest)
		for of, pressure := range fragmentation.Pressure(demand, p.capacity) {
			f.pressure[gpuType{name, of}] = pressure
		}
		for of, scarcity := range fragmentation.Scarcity(demand, p.shapes) {
			f.scarcity[gpuShape{name, of}] = scarcity
		}
		f.kept[name] = fragmentation.Keep(demand, p.shapes, c.turnover[name])
	}
	return f
}

// pool is what the nodes of a pool have.
type pool struct {
	name string
	// capacity is the healthy cards by type, sizes the memory that there is of cards, in MiB.
	capacity map[string]int64
	sizes    map[int64]struct{}
	// shapes is how many nodes there are of each.
	shapes map[fragmentation.Shape]int64
	// cards, milliCPU and memoryMiB are the most that one node has, each for itself.
	cards, milliCPU, memoryMiB int64
}

func (p *pool) add(node fwk.NodeInfo, allocator *gpu.Allocator) {
	p.shapes[shapeOf(node, allocator)]++
	p.capacity[gpu.TypeOf(node.Node())] += int64(allocator.Healthy().Len())
	cards := allocator.Inventory().Cards
	for i := range cards {
		p.sizes[cards[i].MemoryMiB] = struct{}{}
	}
	p.cards = max(p.cards, int64(len(cards)))
	p.milliCPU = max(p.milliCPU, node.GetAllocatable().GetMilliCPU())
	p.memoryMiB = max(p.memoryMiB, node.GetAllocatable().GetMemory()>>20)
}

func shapeOf(node fwk.NodeInfo, allocator *gpu.Allocator) fragmentation.Shape {
	return fragmentation.Shape{
		Cards:    int64(allocator.Healthy().Len()),
		MilliCPU: node.GetAllocatable().GetMilliCPU(), MemoryMiB: node.GetAllocatable().GetMemory() >> 20,
		Type: gpu.TypeOf(node.Node()),
	}
}

// demand returns the pods of the pool, as cards of a size see them. Pods that no node of the pool could hold, were it
// empty, are none: they will not come, and one that asks for enough would outweigh all others.
func (p *pool) demand(counts map[ask]int64, cardMiB int64) fragmentation.Demand {
	demand := fragmentation.Demand{}
	for asked, pods := range counts {
		if asked.pool == p.name && p.couldHold(&asked, cardMiB) {
			if class := asked.class(cardMiB); class.Cards > 0 {
				demand[class] += pods
			}
		}
	}
	return demand
}

// couldHold reports whether the pool's largest node, with cards of a size, has as much as a pod asks for.
func (p *pool) couldHold(a *ask, cardMiB int64) bool {
	slots := p.cards * (cardMiB / max(a.shareMiB, 1))
	return a.whole <= p.cards && a.shared <= slots && a.milliCPU <= p.milliCPU && a.memoryMiB <= p.memoryMiB
}
