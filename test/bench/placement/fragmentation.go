package placement

import (
	"cmp"
	"slices"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// typicalShare is the share of all pods that the classes of a workload cover at least.
const typicalShare = 0.95

// Target is a class of pods and how likely the next pod is one of it.
type Target struct {
	trace.Pod
	Popularity float64
}

// Workload are the classes of pods that a cluster is to serve. Their popularities sum to 1.
type Workload []Target

// NewWorkload returns the most popular classes of a trace, until they cover 95 % of its pods.
func NewWorkload(pods []trace.Pod) Workload {
	at := map[class]int{}
	var all Workload
	for i := range pods {
		of := classOf(&pods[i])
		of.memoryMiB = 0 // the published classes ignore memory
		if _, ok := at[of]; !ok {
			at[of] = len(all)
			pod := pods[i]
			pod.MemoryMiB = 0
			all = append(all, Target{Pod: pod})
		}
		all[at[of]].Popularity++
	}
	slices.SortStableFunc(all, func(a, b Target) int { return cmp.Compare(b.Popularity, a.Popularity) })
	covered, classes := 0.0, 0
	for classes < len(all) && covered < typicalShare*float64(len(pods)) {
		covered += all[classes].Popularity
		classes++
	}
	all = all[:classes]
	for i := range all {
		all[i].Popularity /= covered
	}
	return all
}

// Fragmentation is what of a node's free GPUs a pod of the workload cannot use, in thousandths of a GPU, weighted by
// the popularity of its class: all of it where the pod does not fit or asks for no GPU, else the rests that are too
// small for it.
func (w Workload) Fragmentation(node *Node) float64 {
	free := node.FreeGPU()
	if free == 0 {
		return 0
	}
	sum := 0.0
	for i := range w {
		target := &w[i]
		if target.GPUs == 0 || target.MilliCPU > node.MilliCPU || !node.fitsGPUs(&target.Pod) {
			sum += target.Popularity * float64(free)
			continue
		}
		for _, left := range node.Free {
			if left < target.MilliGPU {
				sum += target.Popularity * float64(left)
			}
		}
	}
	return sum
}
