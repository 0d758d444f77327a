// Package pools keeps the status of GPUPools, and new pods from nodes that break the constraints of their pool.
//
// [Broken], [StatusOf] and what they call are pure; the [Reconciler] reads the cluster from its cache, and writes.
package pools

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
)

// Broken says which constraints of its pool a node breaks, each in a few words; none if it is as it must be. seen is the
// node as every surface shows it.
func Broken(constraints g8s.PoolConstraints, node *corev1.Node, seen inventory.Node) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	oneOf := func(what, got string, allowed []string) {
		switch {
		case len(allowed) == 0 || slices.Contains(allowed, got):
		case got == "":
			add("nothing says its %s, which must be one of %s", what, strings.Join(allowed, ", "))
		default:
			add("its %s is %s, and must be one of %s", what, got, strings.Join(allowed, ", "))
		}
	}
	oneOf("gpu-type", seen.GPUType, constraints.GPUTypes)
	oneOf("region", node.Labels[corev1.LabelTopologyRegion], constraints.Regions)
	oneOf("zone", node.Labels[corev1.LabelTopologyZone], constraints.Zones)

	least := constraints.MinNode
	if least.GPUs != nil && seen.GPUs.Allocatable < int64(*least.GPUs) {
		add("it offers %d GPUs, and must offer %d", seen.GPUs.Allocatable, *least.GPUs)
	}
	atLeast := func(what string, got, want *resource.Quantity) {
		if want != nil && got.Cmp(*want) < 0 {
			add("it has %s %s, and must have %s", got, what, want)
		}
	}
	atLeast("of CPU", &seen.CPU.Allocatable, least.CPU)
	atLeast("of memory", &seen.Memory.Allocatable, least.Memory)
	if least.GPUMemory != nil {
		memory, err := resource.ParseQuantity(seen.MemoryPerGPU)
		if err != nil {
			add("nothing says the memory of its GPUs, which must be %s", least.GPUMemory)
		} else {
			atLeast("of memory on each GPU", &memory, least.GPUMemory)
		}
	}
	return out
}
