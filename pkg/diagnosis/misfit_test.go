package diagnosis

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/topology"
	"g8s.host/gpu-scheduler/pkg/workload"
)

func TestMisfit(t *testing.T) {
	offers := []inventory.Offer{
		{Pool: "default", Nodes: 1},
		{Pool: "train", GPUType: "A100-80G", Nodes: 4, MaxGPUs: 8, Sizes: []int64{8, 8, 8, 8}},
		{Pool: "train", GPUType: "L40S-48G", Nodes: 2, MaxGPUs: 4, Sizes: []int64{4, 4}},
		{Pool: "sliced", GPUType: "A100-40G", Nodes: 2, MIG: []inventory.ProfileCount{{Profile: "1g.5gb", Allocatable: 7}, {Profile: "3g.20gb", Allocatable: 2}}},
		{Pool: "share", GPUType: "L4", Nodes: 1, MaxShared: 16, GPUMemory: resource.MustParse("16Gi"), Shareable: resource.MustParse("15Gi")},
	}
	racks := []topology.Node{{Name: "a", Labels: map[string]string{names.LabelRack: "r1"}}, {Name: "b", Labels: map[string]string{names.LabelRack: "r1"}},
		{Name: "c", Labels: map[string]string{names.LabelRack: "r2"}}, {Name: "d"}}
	offers = append(offers, inventory.Offer{Pool: "racked", GPUType: "H100", Nodes: 4, MaxGPUs: 8, Sizes: []int64{8, 8, 8, 8}, NodeTopology: racks})
	near := func(level string, mode workload.TopologyMode) *workload.Topology {
		return &workload.Topology{Level: level, Mode: mode}
	}
	divided := func(level string, mode workload.TopologyMode, size int32) *workload.Topology {
		return &workload.Topology{Level: level, Mode: mode, Segment: size}
	}
	share := func(text string) *resource.Quantity { return ptr.To(resource.MustParse(text)) }
	tests := map[string]struct {
		asked workload.Resources
		want  string
	}{
		"a node is large enough":              {workload.Resources{Pool: "train", GPU: 8}, ""},
		"one of the types is there":           {workload.Resources{Pool: "train", GPU: 1, GPUTypes: []string{"H100", "L40S-48G"}}, ""},
		"a share that a card has":             {workload.Resources{Pool: "share", GPU: 16, GPUShare: share("15Gi")}, ""},
		"a share that the driver leaves none": {workload.Resources{Pool: "share", GPU: 1, GPUShare: share("16Gi")}, "a pod asks for 16Gi of a GPU, and of the largest GPU of pool share shares can hold 15Gi: the driver keeps the rest of its 16Gi"},
		"a share that no card has":            {workload.Resources{Pool: "share", GPU: 1, GPUShare: share("20Gi")}, "a pod asks for 20Gi of a GPU, and the largest GPU of pool share has 16Gi"},
		"a share where GPUs are whole":        {workload.Resources{Pool: "train", GPU: 8, GPUShare: share("20Gi")}, ""},
		"whole GPUs where all share":          {workload.Resources{Pool: "share", GPU: 1}, "pool share shares its GPUs by memory, and the job asks for whole ones: say in resources.gpu-share how much of each it needs"},
		"no GPU is asked for":                 {workload.Resources{Pool: "default"}, ""},
		"the pool is mistyped":                {workload.Resources{Pool: "trian"}, `no node is in pool "trian" (did you mean "train"?)`},
		"the type is another model":           {workload.Resources{Pool: "train", GPU: 1, GPUTypes: []string{"V100-80G"}}, `no node of pool train has GPUs of type V100-80G; it has A100-80G, L40S-48G`},
		"the type is in no such pool":         {workload.Resources{Pool: "train", GPU: 1, GPUTypes: []string{"A100-80g"}}, `no node of pool train has GPUs of type A100-80g (did you mean "A100-80G"?); it has A100-80G, L40S-48G`},
		"no node has so many":                 {workload.Resources{Pool: "train", GPU: 9}, "a pod asks for 9 GPUs, and the largest such node of pool train has 8"},
		"none of that type has so many":       {workload.Resources{Pool: "train", GPU: 8, GPUTypes: []string{"L40S-48G"}}, "a pod asks for 8 GPUs, and the largest such node of pool train has 4"},
		"a gang that fits":                    {workload.Resources{Pool: "train", GPU: 4, Nodes: 10}, ""},
		"a gang of one member too many":       {workload.Resources{Pool: "train", GPU: 8, Nodes: 5}, "its 5 pods start together, and the nodes of pool train have room for 4 of them, even when they are empty"},
		"a rack that holds all":               {workload.Resources{Pool: "racked", GPU: 8, Nodes: 2, Topology: near("rack", "required")}, ""},
		"two members on each of its nodes":    {workload.Resources{Pool: "racked", GPU: 4, Nodes: 4, Topology: near("rack", "required")}, ""},
		"no rack holds all": {workload.Resources{Pool: "racked", GPU: 8, Nodes: 3, Topology: near("rack", "required")},
			"its 3 nodes have to lie in one rack, and the largest of pool racked has room for 2 of them (r1), even when it is empty"},
		"no rack holds all, which is only preferred": {workload.Resources{Pool: "racked", GPU: 8, Nodes: 3, Topology: near("rack", "preferred")}, ""},
		"segments of racks":                          {workload.Resources{Pool: "racked", GPU: 8, Nodes: 3, Topology: divided("rack", "required", 2)}, ""},
		"one segment too many": {workload.Resources{Pool: "racked", GPU: 8, Nodes: 4, Topology: divided("rack", "required", 2)},
			"its 4 nodes have to lie in segments of 2 in one rack each, and pool racked has room for 1 of the 2, even when it is empty; the most for the next is 1 of 2 in r2"},
		"one segment too many, which is only preferred": {workload.Resources{Pool: "racked", GPU: 8, Nodes: 4, Topology: divided("rack", "preferred", 2)}, ""},
		"no label names where segments lie": {workload.Resources{Pool: "racked", GPU: 8, Nodes: 4, Topology: divided("nvlink", "required", 2)},
			"its 4 nodes have to lie in segments of 2 in one nvlink each, and no node of pool racked has the label nvidia.com/gpu.clique, which would name it: take another resources.topology.level, or mode: preferred"},
		"no label names the level": {workload.Resources{Pool: "racked", GPU: 8, Nodes: 2, Topology: near("nvlink", "required")},
			"its 2 nodes have to lie in one nvlink, and no node of pool racked has the label nvidia.com/gpu.clique, which would name it: take another resources.topology.level, or mode: preferred"},
		"no label names the level, and no GPU is asked for": {workload.Resources{Pool: "racked", Nodes: 2, Topology: near("example.com/row", "required")},
			"its 2 nodes have to lie in one example.com/row, and no node of pool racked has the label example.com/row, which would name it: take another resources.topology.level, or mode: preferred"},
		"the pool has no GPUs":        {workload.Resources{Pool: "default", GPU: 1}, "a pod asks for 1 GPU, and the largest such node of pool default has 0"},
		"slices that a node has":      {workload.Resources{Pool: "sliced", MIG: slicesOf("3g.20gb", 2)}, ""},
		"more slices than a node has": {workload.Resources{Pool: "sliced", MIG: slicesOf("3g.20gb", 3)}, "a pod asks for 3 MIG slices 3g.20gb, and the node of pool sliced that has most has 2"},
		"slices that no node has":     {workload.Resources{Pool: "sliced", MIG: slicesOf("3g.40gb", 1)}, `no node of pool sliced has MIG slices 3g.40gb (did you mean "3g.20gb"?); it has 1g.5gb, 3g.20gb`},
		"slices where GPUs are whole": {workload.Resources{Pool: "train", MIG: slicesOf("3g.20gb", 1)}, "no node of pool train has MIG slices"},
		"slices of another type":      {workload.Resources{Pool: "sliced", MIG: slicesOf("3g.20gb", 1), GPUTypes: []string{"H100"}}, "no node of pool sliced has GPUs of type H100; it has A100-40G"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ExplainMisfit(&tc.asked, offers).String(); got != tc.want {
				t.Errorf("Misfit is %q, want %q", got, tc.want)
			}
		})
	}
}

func slicesOf(profile string, count int64) []workload.MIGSlices {
	return []workload.MIGSlices{{Profile: profile, Count: count}}
}
