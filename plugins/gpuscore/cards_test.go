package gpuscore

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// box is a node's cards as a test gives them.
type box struct {
	allocator *gpu.Allocator
	used      gpu.Used
}

// NodeGPUs implements Devices: every node is this box.
func (b *box) NodeGPUs(fwk.NodeInfo) (*gpu.Allocator, *gpu.Used, bool) {
	return b.allocator, &b.used, b.allocator != nil
}

// newBox has eight cards, two under each switch and four on each NUMA node, with the links, of which some are taken.
func newBox(t testing.TB, links []gpu.Link, taken gpu.Set) *box {
	t.Helper()
	inventory := gpu.Inventory{Links: links}
	for i := range 8 {
		numa := i / 4
		inventory.GPUs = append(inventory.GPUs, gpu.GPU{
			UUID: fmt.Sprintf("GPU-%d", i), Index: i, MemoryMiB: 81920, Health: gpu.Healthy,
			NUMANode: &numa, PCIeSwitch: fmt.Sprintf("sw%d", i/2),
		})
	}
	allocator, err := gpu.NewAllocator(inventory, &gpu.Topologies{})
	if err != nil {
		t.Fatal(err)
	}
	b := &box{allocator: allocator}
	b.used.Add(&gpu.Holding{Whole: taken})
	return b
}

var (
	nvswitch = []gpu.Link{{GPUs: []int{0, 1, 2, 3, 4, 5, 6, 7}, BandwidthGBps: 450}}
	bridges  = []gpu.Link{{GPUs: []int{0, 1}, BandwidthGBps: 300}, {GPUs: []int{2, 3}, BandwidthGBps: 300}}
)

func TestTopologyOfTheCardsThatAreChosen(t *testing.T) {
	tests := map[string]struct {
		links []gpu.Link
		taken gpu.Set
		gpus  string
		want  int64
	}{
		"any two behind an NVSwitch":                         {nvswitch, 0b0000_0001, "2", 100},
		"all eight behind an NVSwitch":                       {nvswitch, 0, "8", 100},
		"two under one switch of a PCIe node":                {nil, 0, "2", 50},
		"two with a bridge":                                  {bridges, 0, "2", 100},
		"four with two bridges, of six pairs":                {bridges, 0, "4", 66},
		"one of eight behind an NVSwitch spoils the eight":   {nvswitch, 0, "1", 50},
		"one of seven behind an NVSwitch spoils nothing":     {nvswitch, 0b0000_0001, "1", 100},
		"one of six behind an NVSwitch spoils a pair":        {nvswitch, 0b0000_0011, "1", 70},
		"one of eight without NVLink spoils half as much":    {nil, 0, "1", 75},
		"the odd card under a switch of a PCIe node":         {nil, 0b0000_0001, "1", 100},
		"one of a pair under a switch, the others are taken": {nil, 0b1111_1100, "1", 85},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plugin := build(t, &configv1.GPUScoreArgs{Weights: only("topology"), Strategy: configv1.Pack})
			plugin.Devices = newBox(t, tc.links, tc.taken)
			node := info(offering(names.ResourceGPU, "8").Obj())
			if got := score(t, plugin, asking(names.ResourceGPU, tc.gpus).Obj(), node); got != tc.want {
				t.Errorf("score %d, want %d", got, tc.want)
			}
		})
	}
}

// TestScatteredCardsAreWorthLess leaves two cards of different NUMA nodes: the node has better pairs, but not now.
func TestScatteredCardsAreWorthLess(t *testing.T) {
	plugin := build(t, &configv1.GPUScoreArgs{Weights: only("topology"), Strategy: configv1.Pack})
	node, pod := info(offering(names.ResourceGPU, "8").Obj()), asking(names.ResourceGPU, "2").Obj()
	plugin.Devices = newBox(t, nil, 0)
	near := score(t, plugin, pod, node)
	plugin.Devices = newBox(t, nil, 0b1110_1110)
	if far := score(t, plugin, pod, node); far >= near {
		t.Errorf("two cards across the node score %d, two under one switch %d", far, near)
	}
}

func TestLabelsDecideWhereCardsAreNotKnown(t *testing.T) {
	plugin := build(t, &configv1.GPUScoreArgs{Weights: only("topology"), Strategy: configv1.Pack})
	node := info(offering(names.ResourceGPU, "8").Label(names.LabelInterconnect, names.InterconnectNVLink).Obj())
	full := newBox(t, nil, 0b1111_1111)
	for name, devices := range map[string]*box{"no cards are known": {}, "the cards were taken meanwhile": full} {
		plugin.Devices = devices
		if got := score(t, plugin, asking(names.ResourceGPU, "2").Obj(), node); got != 100 {
			t.Errorf("%s: score %d, want the 100 of the label", name, got)
		}
	}
}

// BenchmarkScoreByCards scores every node with the cards that Reserve would choose; it must not allocate.
func BenchmarkScoreByCards(b *testing.B) {
	for _, count := range []int{1000, 5000} {
		for _, gpus := range []string{"1", "4"} {
			b.Run(fmt.Sprintf("nodes=%d/gpus=%s", count, gpus), func(b *testing.B) {
				plugin := build(b, &configv1.GPUScoreArgs{Strategy: configv1.Pack})
				plugin.Devices = newBox(b, nvswitch, 0b0000_0011)
				benchmarkScore(b, plugin, asking(names.ResourceGPU, gpus).Obj(), count)
			})
		}
	}
}

// benchmarkScore scores a pod on a number of nodes once an iteration.
func benchmarkScore(b *testing.B, plugin *Plugin, pod *corev1.Pod, count int) {
	b.Helper()
	nodes := make([]fwk.NodeInfo, count)
	for i := range nodes {
		nodes[i] = info(offering(names.ResourceGPU, "8").Label(names.LabelGPUType, "A800-80G").Obj(),
			asking(names.ResourceGPU, "4").Obj())
	}
	cs, ctx := newCycle(b, plugin, pod, nodes...), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		for _, node := range nodes {
			if _, status := plugin.Score(ctx, cs, pod, node); status != nil {
				b.Fatal(status)
			}
		}
	}
}
