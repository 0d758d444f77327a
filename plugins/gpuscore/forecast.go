package gpuscore

import (
	"math"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/fragmentation"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// forecast is which pods are to be expected in each pool, and what that makes of free cards. It never changes.
type forecast struct {
	pools map[string]*outlook
	// made is how many forecasts there have been.
	made int64
}

// outlook is the forecast for a pool. It is made when it is asked for, since most pools are not between two forecasts.
type outlook struct {
	// made is the forecast that it was new in.
	made int64
	// nodes and pods are what it is made from, and rate and changes were those of the pods.
	nodes   *pool
	pods    *population
	rate    float64
	changes int64

	once sync.Once
	// models are by the memory of a card, 0 if it is unknown: the same pods leave different rests on others.
	models   map[int64]*fragmentation.Model
	pressure map[string]float64 // by type
	scarcity map[fragmentation.Shape]float64
	kept     fragmentation.Kept
}

// of returns the outlook for a pool, nil for one without cards.
func (f *forecast) of(pool string) *outlook {
	o := f.pools[pool]
	if o != nil {
		o.once.Do(o.make)
	}
	return o
}

// generation is of what nodes are worth to pods of a pool, or of none: another one when that may have changed.
func (f *forecast) generation(pool string) int64 {
	if o := f.pools[pool]; o != nil {
		return o.made
	}
	return f.made
}

func (o *outlook) make() {
	pods := map[ask]int64(nil)
	if o.pods != nil {
		pods = o.pods.pods
	}
	o.models = map[int64]*fragmentation.Model{}
	largest := int64(0) // any size of card will do to count what names a type
	for size := range o.nodes.sizes {
		o.models[size] = fragmentation.NewModel(o.nodes.demand(pods, size), o.rate)
		largest = max(largest, size)
	}
	demand := o.nodes.demand(pods, largest)
	o.pressure = fragmentation.Pressure(demand, o.nodes.capacity)
	o.scarcity = fragmentation.Scarcity(demand, o.nodes.shapes)
	o.kept = fragmentation.Keep(demand, o.nodes.shapes, o.rate)
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
	fleet    fleet
	register register
	// nodes is the list of the snapshot that the fleet was last read from. kube-scheduler makes another whenever a node
	// comes or goes.
	nodes []fwk.NodeInfo
}

// occasion is the attempt that a forecast is for.
type occasion struct {
	number int64
	// pool is that of the pod, "" if it is in none.
	pool string
}

// next returns the forecast for an attempt. It is made anew every so many of them, and when nodes come or go, or nothing is
// known of the pod's pool, whose first cards may have come a moment ago; and of it the pools that have changed.
func (f *forecaster) next(handle fwk.Handle, devices Devices, now occasion) (*forecast, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	nodes, err := handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, err
	}
	due := f.pace.DueAt(now.number, f.register.asking) || f.current == nil
	if !due && cycle.SameNodes(nodes, f.nodes) && (now.pool == "" || f.current.pools[now.pool] != nil) {
		return f.current, nil
	}
	f.nodes = nodes
	if changed := f.fleet.update(nodes, devices); !due && !changed {
		return f.current, nil
	}
	if due {
		f.register.count(handle.SharedInformerFactory().Core().V1().Pods().Informer().GetStore().List())
	}
	last := f.current
	f.current = last.next(f.fleet.pools, f.register.pools)
	showPools(last, f.current)
	return f.current, nil
}

// next returns the forecast after one, or the first one, with the outlooks of it that still hold.
func (f *forecast) next(nodes map[string]*pool, pods map[string]*population) *forecast {
	next := &forecast{pools: make(map[string]*outlook, len(nodes)), made: 1}
	if f != nil {
		next.made = f.made + 1
	}
	for name := range nodes {
		o := &outlook{made: next.made, nodes: nodes[name], pods: pods[name]}
		if o.pods != nil {
			o.rate, o.changes = o.pods.rate, o.pods.changes
		}
		if f != nil && f.pools[name].holds(o) {
			o = f.pools[name]
		}
		next.pools[name] = o
	}
	return next
}

// sameRate is how much the rate at which pods leave a pool may change before its outlook does.
const sameRate = 0.05

// holds reports whether an outlook is still good where another one would be made, which costs a look at each node of the
// pool.
func (o *outlook) holds(next *outlook) bool {
	if o == nil || o.nodes != next.nodes || o.pods != next.pods {
		return false
	}
	if o.pods == nil {
		return true
	}
	return next.changes-o.changes < fragmentation.Few(next.pods.all) && math.Abs(next.rate-o.rate) < sameRate
}
