package trace

import (
	"cmp"
	"fmt"
	"math/rand"
	"slices"
)

// Inflation is the load of the published experiments: pods arrive until they have asked for 1.3 times the GPUs.
const Inflation = 1.3

// drawsBetween is how many numbers the published runs draw between the arrivals and the order of the nodes. It
// changes single seeds, not means.
const drawsBetween = 10

// Arrivals are the pods of a run in the order in which they come, and the order in which nodes of equal score are
// taken. Both follow from a seed.
type Arrivals struct {
	Pods []Pod
	// Nodes are the nodes in order of their names, which begin with a random number each.
	Nodes []Node
}

// DrawArrivals makes the arrivals of a seed. The trace is shuffled; then pods drawn from it with replacement follow until
// they ask for inflation times the capacity, or, where the trace asks for more, random pods leave it.
func DrawArrivals(nodes []Node, trace []Pod, inflation float64, seed int64) Arrivals {
	random := rand.New(rand.NewSource(seed)) //nolint:gosec // the published runs use this generator
	random.Int()
	sorted := slices.Clone(trace)
	slices.SortFunc(sorted, func(a, b Pod) int { return cmp.Compare(a.Name, b.Name) })
	pods := slices.Clone(sorted)
	random.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	goal := int64(inflation * float64(TotalCapacity(nodes)))
	asked := int64(0)
	for i := range pods {
		asked += pods[i].TotalMilliGPU()
	}
	if asked > goal {
		pods = removeRandomPods(pods, asked, goal, random)
	} else {
		pods = addRandomPods(pods, sorted, goal-asked, random)
	}
	for range drawsBetween {
		random.Int()
	}
	order := random.Perm(len(nodes))
	arranged := make([]Node, len(nodes))
	for i, at := range order {
		arranged[at] = nodes[i]
		arranged[at].Name = fmt.Sprintf("%04d-%s", at, nodes[i].Name)
	}
	return Arrivals{Pods: pods, Nodes: arranged}
}

// removeRandomPods removes random pods until the rest request no more than goal.
func removeRandomPods(pods []Pod, asked, goal int64, random *rand.Rand) []Pod {
	for asked > goal {
		i := random.Intn(len(pods))
		asked -= pods[i].TotalMilliGPU()
		pods = slices.Delete(pods, i, i+1)
	}
	return pods
}

// addRandomPods appends random pods of the trace until the share of the next one on each of its GPUs exceeds the room.
func addRandomPods(pods, trace []Pod, room int64, random *rand.Rand) []Pod {
	if !slices.ContainsFunc(trace, func(pod Pod) bool { return pod.GPUs > 0 }) {
		return pods
	}
	for {
		next := trace[random.Intn(len(trace))]
		if next.MilliGPU > room {
			return pods
		}
		room -= next.TotalMilliGPU()
		pods = append(pods, next)
	}
}

// TotalCapacity is the GPUs of some nodes together, in thousandths of one.
func TotalCapacity(nodes []Node) int64 {
	sum := int64(0)
	for i := range nodes {
		sum += nodes[i].GPUs * MilliPerGPU
	}
	return sum
}
