package placement

import (
	"math"
	"strings"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// Policy chooses nodes and GPUs.
type Policy interface {
	// Score values a node on which the pod fits, the higher the better, and names the GPUs that it would take. It is
	// a function of the node, the pod, and of what Observe has seen.
	Score(node *Node, pod *trace.Pod) (int64, Cards)
}

// Observer is a policy that learns from what arrives.
type Observer interface {
	// Observe sees each pod and the nodes before it is placed, and says whether scores have changed.
	Observe(pod *trace.Pod, nodes []Node) bool
	// Left sees each pod that Observe saw and that has gone, whether or not it was placed.
	Left(pod *trace.Pod)
}

// Picker is a policy that leaves to chance which node is taken.
type Picker interface {
	// Pick returns the position of one of the nodes on which the pod fits, and the GPUs there.
	Pick(fitting []*Node, pod *trace.Pod) (int, Cards)
}

// class is what scores depend on.
type class struct {
	milliCPU, memoryMiB, gpus, milliGPU int64
	models                              string
}

func classOf(pod *trace.Pod) class {
	return class{pod.MilliCPU, pod.MemoryMiB, pod.GPUs, pod.MilliGPU, strings.Join(pod.Models, "|")}
}

// choice is a remembered answer of a policy.
type choice struct {
	version, epoch int
	fits           bool
	cards          Cards
	score          int64
}

// Cluster places pods with one policy. Answers are remembered until the node changes, so that a pod costs a look at
// each node and not a computation.
type Cluster struct {
	Nodes  []Node
	policy Policy
	known  map[class][]choice
	epoch  int
}

// NewCluster returns an empty cluster.
func NewCluster(nodes []trace.Node, policy Policy) *Cluster {
	return &Cluster{Nodes: newCluster(nodes), policy: policy, known: map[class][]choice{}, epoch: 1}
}

// Place puts a pod on the best node, the first of equals, and returns its position and GPUs, or -1 if it fits on none
// that is not kept from it.
func (c *Cluster) Place(pod *trace.Pod) (int, Cards) {
	if observer, ok := c.policy.(Observer); ok && observer.Observe(pod, c.Nodes) {
		c.epoch++
	}
	at, cards := c.choose(pod, nowhere)
	if at >= 0 {
		c.Nodes[at].place(pod, cards)
	}
	return at, cards
}

// Remove takes a pod away that Place put somewhere.
func (c *Cluster) Remove(pod *trace.Pod, at int, cards Cards) { c.Nodes[at].remove(pod, cards) }

// Left tells the policy of a pod that has gone for good: one that was removed, or that was placed nowhere and is lost.
func (c *Cluster) Left(pod *trace.Pod) {
	if observer, ok := c.policy.(Observer); ok {
		observer.Left(pod)
	}
}

// nowhere is the position of no node.
const nowhere = -1

// choose returns the position of the node that the policy prefers, of all but one, and the GPUs there.
func (c *Cluster) choose(pod *trace.Pod, but int) (int, Cards) {
	if picker, ok := c.policy.(Picker); ok {
		return c.pick(picker, pod, but)
	}
	choices, keeper := c.choices(pod), c.keeper(pod)
	best, bestScore := nowhere, int64(math.MinInt64)
	for i := range c.Nodes {
		known := &choices[i]
		if known.version != c.Nodes[i].Version || known.epoch != c.epoch {
			*known = c.ask(&c.Nodes[i], pod)
		}
		if known.fits && known.score > bestScore && i != but && !keeps(keeper, &c.Nodes[i]) {
			best, bestScore = i, known.score
		}
	}
	if best < 0 {
		return nowhere, 0
	}
	return best, choices[best].cards
}

// choices returns what is remembered of a pod and each node.
func (c *Cluster) choices(pod *trace.Pod) []choice {
	of := classOf(pod)
	choices := c.known[of]
	if choices == nil {
		choices = make([]choice, len(c.Nodes))
		c.known[of] = choices
	}
	return choices
}

func (c *Cluster) ask(node *Node, pod *trace.Pod) choice {
	answer := choice{version: node.Version, epoch: c.epoch}
	if answer.fits = node.Fits(pod); answer.fits {
		answer.score, answer.cards = c.policy.Score(node, pod)
	}
	return answer
}

func (c *Cluster) pick(picker Picker, pod *trace.Pod, but int) (int, Cards) {
	var fitting []*Node
	var positions []int
	for i := range c.Nodes {
		if i != but && c.Nodes[i].Fits(pod) {
			fitting, positions = append(fitting, &c.Nodes[i]), append(positions, i)
		}
	}
	if len(fitting) == 0 {
		return nowhere, 0
	}
	i, cards := picker.Pick(fitting, pod)
	return positions[i], cards
}
