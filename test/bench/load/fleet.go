// Package load describes the load under which our scheduler is measured against the stock kube-scheduler: nodes in
// pools of several GPU types, and pods that each name one pool and one type. Both schedulers get the same objects.
//
//   - cycle/ takes pods through the scheduling cycle alone, in memory: go test -bench . ./test/bench/load/cycle
//   - matrix/ compares both over shapes of pods and states of clusters, and writes docs/benchmarks/matrix.md
//   - harness/ runs Kubernetes' own scheduler_perf, with an API server in the same process
//   - process/ runs the schedulers as processes of their own against a whole control plane
//   - speed/ is the program of `make bench`: it runs the two last in alternating rounds, and writes
//     docs/benchmarks/speed.md
//
// Figures are ratios of medians of rounds that alternate between the two schedulers, since absolute ones say more
// about the machine. Where the machine is shared, CPU time is the one to trust.
package load

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/test/fixture"
)

// GPUsPerNode is how many GPUs each node has.
const GPUsPerNode = 8

// types are the GPU types in each pool.
var types = [...]string{"A100-80G", "A800-80G", "H100-80G", "L40S-48G"}

// Fleet is a number of equal nodes, dealt out evenly to pools and, within each, to four GPU types.
type Fleet struct{ Nodes, Pools int }

// Cells is the number of pairs of a pool and a type.
func (f Fleet) Cells() int { return f.Pools * len(types) }

// NodeList returns the nodes, with the inventory that the agent of each has reported.
func (f Fleet) NodeList() ([]*corev1.Node, error) {
	nodes := make([]*corev1.Node, f.Nodes)
	for i := range nodes {
		pool, gpuType := f.cell(i)
		name, nvlink := fmt.Sprintf("node-%05d", i), gpuType != types[len(types)-1]
		inventory, err := Inventory(name, 81920, nvlink)
		if err != nil {
			return nil, fmt.Errorf("writing the inventory of %s: %w", name, err)
		}
		interconnect := names.InterconnectPCIe
		if nvlink {
			interconnect = names.InterconnectNVLink
		}
		nodes[i] = fixture.Node(name).Pool(pool).GPUs(GPUsPerNode, gpuType).Interconnect(interconnect).
			Annotate(names.AnnotationInventory, inventory).Obj()
	}
	return nodes, nil
}

// Inventory is what the agent reports of a board with two processors and two PCIe switches each, and with an NVSwitch or
// without. All cards have one size.
func Inventory(node string, memoryMiB int64, nvlink bool) (string, error) {
	var inventory gpu.Inventory
	all := make([]int, GPUsPerNode)
	for i := range GPUsPerNode {
		all[i] = i
		inventory.GPUs = append(inventory.GPUs, gpu.GPU{
			UUID: fixture.UUID(node, i), Index: i, MemoryMiB: memoryMiB, ReservedMiB: ptr.To[int64](0), Health: gpu.Healthy,
			NUMANode: ptr.To(i / 4), PCIeSwitch: fmt.Sprintf("0000:%02d:00.0", i/2),
		})
	}
	if nvlink {
		inventory.Links = []gpu.Link{{GPUs: all, NVLinks: 12}}
	}
	return inventory.Encode()
}

// Pod returns the i-th pod, which asks for GPUs of the i-th cell, counted round and round.
func (f Fleet) Pod(i int, gpus int64) *corev1.Pod {
	pool, gpuType := f.cell(i)
	return fixture.Pod(fmt.Sprintf("pod-%06d", i)).Pool(pool).Type(gpuType).GPUs(gpus).Obj()
}

// cell is the pool and the type that the i-th node is in, and the i-th pod asks for.
func (f Fleet) cell(i int) (pool, gpuType string) {
	i %= f.Cells()
	return fmt.Sprintf("pool-%03d", i%f.Pools), types[i/f.Pools]
}
