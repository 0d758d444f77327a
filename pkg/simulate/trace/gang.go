package trace

// GPUsPerNode is the size of every node. Philly's own nodes had 2, 4 or 8; its job list does not say which.
const GPUsPerNode = 8

// Gang is the division of a job into pods: as many as fill a node each, and one with the rest.
type Gang struct {
	// Whole pods ask for all GPUs of a node.
	Whole int
	// Rest is what the last pod asks, 0 where there is none.
	Rest int
}

// NewGang returns the smallest gang with that number of GPUs.
func NewGang(gpus int) Gang { return Gang{Whole: gpus / GPUsPerNode, Rest: gpus % GPUsPerNode} }

// Gang is what the job's pods ask for.
func (j *Job) Gang() Gang { return NewGang(j.GPUs) }

// GPUs is what all pods ask together.
func (g Gang) GPUs() int { return g.Whole*GPUsPerNode + g.Rest }

// PodCount is how many there are.
func (g Gang) PodCount() int {
	if g.Rest > 0 {
		return g.Whole + 1
	}
	return g.Whole
}

// GPUsOfPod is how many GPUs the pod of an index asks.
func (g Gang) GPUsOfPod(index int) int {
	if index < g.Whole {
		return GPUsPerNode
	}
	return g.Rest
}
