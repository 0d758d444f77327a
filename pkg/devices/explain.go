package devices

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gpu"
)

// NodeGPUs returns a node's GPUs and their usage, as Reserve will see them, and false if only the number of GPUs is known. Neither may be changed.
func (l *Cache) NodeGPUs(info fwk.NodeInfo) (*gpu.Allocator, *gpu.Used, bool) {
	view := l.NodeView(info)
	return view.Allocator, &view.Used, !view.Allocator.Inventory().Derived
}

// GPUShortage returns why a demand does not fit on a node now. It is zero if it fits.
func (l *Cache) GPUShortage(demand *gpu.Demand, info fwk.NodeInfo) gpu.Reason {
	_, reason := l.NodeView(info).Allocate(demand)
	return reason
}

// ChosenGPUs returns the GPUs and MIG slices chosen for a pod on a node, in the form of the annotation g8s.host/gpu-devices, and the reason for the
// choice. Both are "" for a pod without any.
func (l *Cache) ChosenGPUs(pod types.UID, node string) (devices, reason string) {
	choice := l.choiceOf(pod)
	if choice == nil || choice.Node != node {
		return "", ""
	}
	devices, err := choice.Encode()
	if err != nil { // Bind has failed for the same reason, and reported it
		return "", ""
	}
	return devices, choice.describeReason()
}

// describeReason returns the reason for the chosen GPUs: for several, how they are connected, and for one, what it leaves to other pods.
func (c *Choice) describeReason() string {
	cards := c.holding.Whole | c.holding.Shared
	switch {
	case cards.Len() > 1:
		return fmt.Sprintf("%s, %d %% of the best that %d GPUs of the node can have",
			c.allocator.SlowestPath(cards), c.allocator.SetValue(cards), cards.Len())
	case cards == 0:
		return c.reasonOfSlices()
	case c.holding.Shared != 0:
		return fmt.Sprintf("the best fit of memory, %d MiB of GPU %s", c.holding.ShareMiB, c.holding.Shared)
	}
	left := c.allocator.PotentialOf(c.left)
	return fmt.Sprintf("leaves %d of the best sets of 8, %d of 4 and %d of 2 GPUs", left.Eights, left.Fours, left.Twos)
}
