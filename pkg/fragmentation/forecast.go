package fragmentation

import (
	"iter"
	"maps"
	"math"
	"sync"
)

// Forecasts are the forecasts for all pools at one moment. They never change: when pods or nodes have changed, [Forecasts.NextForecasts] returns
// others. nil has no pools.
type Forecasts struct {
	pools map[string]*Forecast
	// made is the number of forecasts so far.
	made int64
}

// NextForecasts returns the forecasts after these, with those of them that are still valid; these themselves if all are.
func (f *Forecasts) NextForecasts(nodes map[string]*Pool, idle map[string]IdleNodes, pods *PodCount) *Forecasts {
	next := &Forecasts{pools: make(map[string]*Forecast, len(nodes)), made: 1}
	if f != nil {
		next.made = f.made + 1
	}
	held := 0
	for name, pool := range nodes {
		forecast := newForecast(pool, pods.pools[name], next.made)
		if f != nil && f.pools[name].isStillValid(forecast) {
			forecast = f.pools[name]
			held++
		} else {
			forecast.idle = maps.Clone(idle[name])
		}
		next.pools[name] = forecast
	}
	if f != nil && held == len(nodes) && held == len(f.pools) {
		return f
	}
	return next
}

// ForPool returns the forecast for a pool, nil for a pool without GPUs.
func (f *Forecasts) ForPool(pool string) *Forecast {
	forecast := f.pools[pool]
	if forecast != nil {
		forecast.once.Do(forecast.computeModels)
	}
	return forecast
}

// HasPool reports whether there is a forecast for a pool. It computes none.
func (f *Forecasts) HasPool(pool string) bool { return f != nil && f.pools[pool] != nil }

// PoolNames are the names of the pools that there are forecasts for.
func (f *Forecasts) PoolNames() iter.Seq[string] {
	if f == nil {
		return maps.Keys(map[string]*Forecast(nil))
	}
	return maps.Keys(f.pools)
}

// Generation identifies the values of nodes for pods of a pool, or of none: it differs when these may have changed.
func (f *Forecasts) Generation(pool string) int64 {
	if forecast := f.pools[pool]; forecast != nil {
		return forecast.generation
	}
	return f.made
}

// Forecast is which pods are expected in a pool, and what that means for its GPUs. It is computed on demand, since most pools are not used
// between two forecasts.
type Forecast struct {
	generation int64
	// nodes, idle and pods are its input. rate and changes were those of the pods. pods is nil if there are none.
	nodes   *Pool
	idle    IdleNodes
	pods    *population
	rate    float64
	changes int64

	once sync.Once
	// models are by the memory of a GPU, 0 if it is unknown: the same pods leave different remainders on others. scarcity is by the shape of a
	// node. Both are by buckets. pressure and needs are by type.
	models   map[int64]*Model
	pressure map[string]float64
	scarcity map[Shape]float64
	needs    map[string][]Need
	kept     Kept
}

// NewForecast returns the forecast for one pool alone. It keeps idle.
func NewForecast(pool string, nodes *Pool, idle IdleNodes, pods *PodCount) *Forecast {
	forecast := newForecast(nodes, pods.pools[pool], 1)
	forecast.idle = idle
	forecast.once.Do(forecast.computeModels)
	return forecast
}

func newForecast(nodes *Pool, pods *population, generation int64) *Forecast {
	f := &Forecast{generation: generation, nodes: nodes, pods: pods}
	if pods != nil {
		f.rate, f.changes = pods.rate, pods.changes
	}
	return f
}

func (f *Forecast) computeModels() {
	var pods map[PodRequest]int64
	if f.pods != nil {
		pods = f.pods.pods
	}
	f.models = map[int64]*Model{}
	largest := int64(0) // any GPU size works to count requests for a type
	for bucket, size := range f.nodes.sizes {
		f.models[bucket] = NewModel(f.nodes.poolDemand(pods, size), f.rate)
		largest = max(largest, size)
	}
	demand := f.nodes.poolDemand(pods, largest)
	f.pressure = ComputePressure(demand, f.nodes.capacity)
	shapes := f.nodes.countShapes()
	scarcity := ComputeScarcity(demand, shapes)
	f.scarcity = make(map[Shape]float64, len(shapes))
	for bucket, like := range f.nodes.hosts {
		f.scarcity[bucket] = scarcity[like.most]
	}
	f.needs = ComputeNeeds(demand, f.idle, f.nodes.capacity)
	f.kept = NodesToKeep(demand, shapes, f.rate)
}

// sameRate is how much the departure rate of a pool may change before its forecast does.
const sameRate = 0.05

// isStillValid reports whether a forecast is still valid, which avoids a look at each node of the pool for a new one.
func (f *Forecast) isStillValid(next *Forecast) bool {
	if f == nil || f.nodes != next.nodes || f.pods != next.pods {
		return false
	}
	if f.pods == nil {
		return true
	}
	return next.changes-f.changes < ChangeThreshold(next.pods.all) && math.Abs(next.rate-f.rate) < sameRate
}

// KeptNodes returns which nodes of the pool are worth keeping whole.
func (f *Forecast) KeptNodes() *Kept { return &f.kept }

// Placement scores a pod on a node: it sums up the node's GPUs, one after another, and what the pod takes of each.
type Placement struct {
	forecast *Forecast
	// bucket is that of the node's shape.
	bucket Shape
	node   Node
	after  After
	// model is that of the GPUs of a size, nil for a size that has just been added.
	model   *Model
	cardMiB int64
}

// PlaceOn begins the placement of a pod on a node of a shape, with so much CPU and memory left.
func (f *Forecast) PlaceOn(shape *Shape, milliCPU, memoryMiB int64) Placement {
	p := Placement{forecast: f, bucket: shape.toBucket(), cardMiB: -1}
	p.node.Scarcity = f.scarcity[p.bucket]
	return p.MoveTo(shape, milliCPU, memoryMiB)
}

// MoveTo returns the same placement on another node with the same GPUs.
func (p *Placement) MoveTo(shape *Shape, milliCPU, memoryMiB int64) Placement {
	at := *p
	at.node.MilliCPU, at.node.MemoryMiB, at.node.Cards = milliCPU, memoryMiB, shape.Cards
	at.node.Pressure, at.node.Needs = p.forecast.pressure[shape.Type], p.forecast.needs[shape.Type]
	if bucket := shape.toBucket(); bucket != p.bucket {
		at.bucket, at.node.Scarcity = bucket, p.forecast.scarcity[bucket]
	}
	return at
}

// AddGPU adds a GPU of a size, of which so many thousandths are free and so many of these are taken. Its value depends on the demand for GPUs of
// its size.
func (p *Placement) AddGPU(cardMiB, free, taken int64) {
	if cardMiB != p.cardMiB {
		p.cardMiB, p.model = cardMiB, p.forecast.models[truncateBits(cardMiB)]
	}
	if free == Whole {
		p.node.Unused++
	}
	if taken > 0 {
		p.after.Rest += free - taken
	}
	if p.model != nil {
		p.node.Free += p.model.GPUValue(free)
		p.after.Free += p.model.GPUValue(free - taken)
	}
}

// NodeValue returns the value of the node for the pod, which gets GPUs of a size: 0–100 points in units of [Fraction]. inUse is whether any GPU of
// the node is in use. GPUs of a size that has just been added have no value yet.
func (p *Placement) NodeValue(asked *PodRequest, cardMiB int64) (value int64, inUse bool) {
	model := p.forecast.models[truncateBits(cardMiB)]
	if model == nil {
		return 0, false
	}
	class := asked.ClassOn(cardMiB)
	return ScoreOfWaste(model.PodWaste(&p.node, &class, p.after)), p.node.Unused < p.node.Cards
}
