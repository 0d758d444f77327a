package census

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
)

const (
	// cacheTimeout bounds the wait for the cache. numbersTTL is how long a count is reused, so that frequent scrapes cost no more.
	cacheTimeout = 2 * time.Second
	numbersTTL   = 5 * time.Second
)

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("gpu_controller_"+name, help, labels, nil)
}

var (
	gpus = newDesc("gpus", "GPUs of the nodes of a pool, whole ones: allocatable, held by pods, free for a new pod, "+
		"and unhealthy.", "pool", "gpu_type", "state")
	sets = newDesc("gpu_sets", "How many pods of so many GPUs could start in a pool, one node at a time: free, now; all, if nothing ran.",
		"pool", "size", "state")

	cpu = newDesc("cpu_cores", "CPU of the nodes of a pool, in cores: allocatable, and requested by pods.", "pool", "state")
	ram = newDesc("memory_bytes", "Memory of the nodes of a pool: allocatable, and requested by pods.", "pool", "state")

	pendingPods   = newDesc("pending_pods", "Pods that wait for GPUs, by the pool and the cause that gpuctl why tells.", "pool", "cause")
	pendingGPUs   = newDesc("pending_gpus", "GPUs that pods wait for, by pool and cause.", "pool", "cause")
	pendingOldest = newDesc("pending_oldest_seconds", "How long ago the oldest pod that waits for GPUs was created, by pool and cause.", "pool", "cause")

	gangs       = newDesc("gangs", "Gangs with members that have no node: waiting are those of which no member runs, torn those of which some do.", "state")
	gangsOldest = newDesc("gangs_oldest_seconds", "How long ago the oldest member without a node of such a gang was created.", "state")

	spotMachines = newDesc("spot_machines", "Machines of a SpotPool: the minimum that there should be, those that there are or that are being bought, "+
		"and those that are ready nodes.", "spot_pool", "state")
	spotProblem = newDesc("spot_problem", "1 while a SpotPool cannot buy: capacity, no type in any zone is to be had; cloud, the cloud does not do "+
		"what is asked of it; joining, machines that were bought do not become nodes.", "spot_pool", "problem")

	foreignPods = newDesc("foreign_pods", "Pods with GPUs that another scheduler than gpu-scheduler placed, but for those in a pool of that "+
		"scheduler's name.")
	overpromised = newDesc("overpromised_gpus", "GPUs of the nodes of a pool that pods were promised beyond those that each node has.", "pool")

	all = []*prometheus.Desc{gpus, sets, cpu, ram, pendingPods, pendingGPUs, pendingOldest, gangs, gangsOldest, spotMachines, spotProblem,
		foreignPods, overpromised}
)

// Collector counts what a cache holds.
type Collector struct {
	// Reader is the cache.
	Reader client.Reader
	Clock  clock.PassiveClock

	mu      sync.Mutex
	counted time.Time
	numbers *Numbers
}

var _ prometheus.Collector = &Collector{}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, one := range all {
		out <- one
	}
}

// Collect implements [prometheus.Collector]. It counts nothing before the cache has synced.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), cacheTimeout)
	defer cancel()
	numbers, err := c.cachedNumbers(ctx)
	if err != nil {
		return
	}
	tell := func(of *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(of, prometheus.GaugeValue, value, labels...)
	}
	numbers.emitMetrics(tell)
}

func (c *Collector) cachedNumbers(ctx context.Context) (*Numbers, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Clock.Now()
	if c.numbers != nil && now.Sub(c.counted) < numbersTTL {
		return c.numbers, nil
	}
	facts, err := c.readFacts(ctx)
	if err != nil {
		return nil, err
	}
	numbers := Count(facts, now)
	c.counted, c.numbers = now, &numbers
	return c.numbers, nil
}

// readFacts lists the cached objects. They are not copied and must not be changed.
func (c *Collector) readFacts(ctx context.Context) (Facts, error) {
	var nodes corev1.NodeList
	var pods corev1.PodList
	var spots g8s.SpotPoolList
	for _, list := range []client.ObjectList{&nodes, &pods, &spots} {
		err := c.Reader.List(ctx, list, client.UnsafeDisableDeepCopy)
		if _, spot := list.(*g8s.SpotPoolList); spot && meta.IsNoMatchError(err) {
			continue // the cluster lacks the SpotPool kind
		}
		if err != nil {
			return Facts{}, fmt.Errorf("reading the cache: %w", err)
		}
	}
	return Facts{Nodes: nodes.Items, Pods: pods.Items, SpotPools: spots.Items}, nil
}

func (n *Numbers) emitMetrics(tell func(*prometheus.Desc, float64, ...string)) {
	for name, pool := range n.Pools {
		for of, sum := range pool.GPUs {
			tell(gpus, float64(sum.Allocatable), name, of, "allocatable")
			tell(gpus, float64(sum.Used), name, of, "held")
			tell(gpus, float64(sum.Free), name, of, "free")
			tell(gpus, float64(sum.Unhealthy), name, of, "unhealthy")
		}
		for of, sum := range map[*prometheus.Desc]inventory.Capacity{cpu: pool.CPU, ram: pool.Memory} {
			tell(of, sum.Allocatable.AsApproximateFloat64(), name, "allocatable")
			tell(of, sum.Requested.AsApproximateFloat64(), name, "requested")
		}
		for _, size := range setSizes {
			tell(sets, float64(pool.FreeSets[size]), name, fmt.Sprint(size), "free")
			tell(sets, float64(pool.Sets[size]), name, fmt.Sprint(size), "all")
		}
	}
	for of, pending := range n.Pending {
		tell(pendingPods, float64(pending.Pods), of.Pool, string(of.Cause))
		tell(pendingGPUs, float64(pending.GPUs), of.Pool, string(of.Cause))
		tell(pendingOldest, pending.Oldest.Seconds(), of.Pool, string(of.Cause))
	}
	tell(gangs, float64(n.Gangs.Waiting), "waiting")
	tell(gangs, float64(n.Gangs.PartiallyBound), "torn")
	tell(gangsOldest, n.Gangs.WaitingOldest.Seconds(), "waiting")
	tell(gangsOldest, n.Gangs.PartiallyBoundOldest.Seconds(), "torn")
	tell(foreignPods, float64(n.Foreign))
	for name, excess := range n.Overpromised {
		tell(overpromised, float64(excess), name)
	}
	for name, spot := range n.Spot {
		tell(spotMachines, float64(spot.Minimum), name, "minimum")
		tell(spotMachines, float64(spot.Size), name, "bought")
		tell(spotMachines, float64(spot.Joined), name, "joined")
		tell(spotProblem, boolMetric(spot.NoCapacity), name, "capacity")
		tell(spotProblem, boolMetric(spot.CloudSilent), name, "cloud")
		tell(spotProblem, boolMetric(spot.NotJoining), name, "joining")
	}
}

func boolMetric(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
