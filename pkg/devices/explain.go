package devices

import (
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Cards returns a node's GPUs and their usage, as Reserve will see them, and false if only the number of GPUs is known. Neither may be changed.
func (l *Ledger) Cards(info fwk.NodeInfo) (*gpu.Allocator, *gpu.Used, bool) {
	view := l.Node(info)
	return view.Allocator, &view.Used, !view.Allocator.Inventory().Derived
}

// Shortage returns why a demand does not fit on a node now. It is zero if it fits.
func (l *Ledger) Shortage(demand *gpu.Demand, info fwk.NodeInfo) gpu.Reason {
	_, reason := l.Node(info).Allocate(demand)
	return reason
}

// Chosen returns the GPUs and MIG slices chosen for a pod on a node, in the form of the annotation g8s.host/gpu-devices, and the reason for the
// choice. Both are "" for a pod without any.
func (l *Ledger) Chosen(pod types.UID, node string) (devices, reason string) {
	choice := l.choice(pod)
	if choice == nil || choice.Node != node {
		return "", ""
	}
	devices, err := choice.Encode()
	if err != nil { // Bind has failed for the same reason, and reported it
		return "", ""
	}
	return devices, choice.reason()
}

// reason returns the reason for the chosen GPUs: for several, how they are connected, and for one, what it leaves to other pods.
func (c *Choice) reason() string {
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
	left := c.allocator.Potential(c.left)
	return fmt.Sprintf("leaves %d of the best sets of 8, %d of 4 and %d of 2 GPUs", left.Eights, left.Fours, left.Twos)
}
