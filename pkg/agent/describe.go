package agent

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	"g8s.host/gpu-scheduler/pkg/agent/health"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Description is what a new agent would write on its node.
type Description struct {
	Inventory gpu.Inventory
	// Labels are those of a node that has none.
	Labels map[string]string
	// Health is by UUID of the GPU.
	Health map[string]string
}

// Describe returns what a new agent would write after reading these GPUs once.
func Describe(fleet hardware.Fleet) Description {
	tracker := health.NewTracker(0)
	tracker.ObserveGPUs(fleet.GPUs, time.Now())
	view := View{Fleet: fleet, Known: true, Health: map[string]string{}}
	for i := range fleet.GPUs {
		view.Health[fleet.GPUs[i].UUID] = tracker.StatusOf(fleet.GPUs[i].UUID)
	}
	return Description{Inventory: view.Inventory(), Labels: missingLabels(&corev1.Node{}, &view), Health: view.Health}
}
