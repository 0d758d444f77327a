package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/test/bench/load"
	"g8s.host/gpu-scheduler/test/bench/load/cycle"
	"g8s.host/gpu-scheduler/test/fixture"
)

const (
	// cardMiB is the memory of a card.
	cardMiB = 81920
	zones   = 3
	// slicesPerCard is how many MIG slices a card has.
	slicesPerCard = 7
	// claim is the volume claim that the pods of one row mount.
	claim     = "data"
	namespace = "default"
)

const (
	sliceProfile = "1g.10gb"
	migSlice     = corev1.ResourceName(names.ResourceMIGPrefix + sliceProfile)
)

// hosts are what the nodes of a cluster offer.
type hosts int

const (
	whole  hosts = iota // 8 GPUs each
	shared              // 8 cards each that pods share by memory
	sliced              // 8 cards each in MIG slices
	mixed               // 8 GPUs each, but every fifth node has none
)

// state is what runs on the nodes of a pool and type: how many GPUs of each node pods hold, by the size of these pods. It
// repeats with as many nodes as it has.
type state [][]int

// ones is so many pods of one GPU.
func ones(pods int) []int {
	all := make([]int, pods)
	for i := range all {
		all[i] = 1
	}
	return all
}

// The states of a cluster. Each has idle nodes but the full one, so that a pod of 8 GPUs fits.
var (
	idle = state{{}}
	half = state{ones(8), {8}, {2, 2, 2, 2}, {4}, {2, 1, 1}, {}, {}, {}}
	// most has 95 % of the GPUs in use.
	most = append(state{{}, {4}, {4, 2}, {2, 2, 1, 1}}, repeatedNodes(36, ones(8), []int{8}, []int{4, 4}, []int{2, 2, 2, 1, 1})...)
	// fragments has 1 to 3 GPUs free on each node but every fiftieth, which is idle.
	fragments = append(state{{}}, repeatedNodes(49, ones(5), []int{4, 2}, ones(7))...)
	full      = state{ones(8), {8}, {2, 2, 2, 2}, {4, 4}}
)

func repeatedNodes(count int, nodes ...[]int) state {
	all := make(state, count)
	for i := range all {
		all[i] = nodes[i%len(nodes)]
	}
	return all
}

// axes are what cells differ in beside the shape of the pods.
type axes struct {
	nodes, pools, types int
	// asked is how many of the pools pods come to, 0 for all.
	asked int
	state state
	// shapes is how many different requests of CPU and memory pods come with, 0 if no two are alike.
	shapes int
	// uneven has hosts differ in memory, all of them by some MiB, and their cards in a hundred sizes.
	uneven bool
}

// cell returns the pool and the type of the i-th node.
func (a *axes) cell(i int) (pool, gpuType string) { return a.among(a.pools, i) }

// cells is how many pools and types there are together.
func (a *axes) cells() int { return a.pools * a.types }

// asks returns the pool and the type that the i-th pod asks for.
func (a *axes) asks(i int) (pool, gpuType string) { return a.among(a.askedPools(), i) }

// askedCells is how many pools and types pods ask for.
func (a *axes) askedCells() int { return a.askedPools() * a.types }

func (a *axes) askedPools() int {
	if a.asked > 0 {
		return a.asked
	}
	return a.pools
}

func (a *axes) among(pools, i int) (pool, gpuType string) {
	return fmt.Sprintf("pool-%03d", i%pools), typeName(i / pools % a.types)
}

func typeName(i int) string { return fmt.Sprintf("type-%02d", i) }

// world builds the cluster of a cell.
func (a *axes) world(h hosts) (*cycle.World, error) {
	world := &cycle.World{Volumes: volumes()}
	for i := range a.nodes {
		node, err := a.node(i, h)
		if err != nil {
			return nil, fmt.Errorf("building node %d: %w", i, err)
		}
		world.Nodes = append(world.Nodes, node)
		if h == mixed && withoutGPUs(i) {
			continue
		}
		pods, err := a.running(i, node.Name, h)
		if err != nil {
			return nil, fmt.Errorf("building the pods of node %d: %w", i, err)
		}
		world.Pods = append(world.Pods, pods...)
	}
	return world, nil
}

func withoutGPUs(i int) bool { return i%5 == 0 }

func (a *axes) node(i int, h hosts) (*corev1.Node, error) {
	name := fmt.Sprintf("node-%05d", i)
	pool, gpuType := a.cell(i)
	b := fixture.Node(name).Label(corev1.LabelTopologyZone, zone(i/a.cells()))
	if h == mixed && withoutGPUs(i) {
		return b.Obj(), nil
	}
	b.Pool(pool)
	memory := int64(cardMiB)
	if a.uneven {
		memory -= int64(i % 100)
	}
	switch h {
	case shared:
		b.SharedGPUs(load.GPUsPerNode, 10*load.GPUsPerNode).Label(names.LabelGPUType, gpuType)
	case sliced:
		b.Label(names.LabelGPUType, gpuType)
	default:
		b.GPUs(load.GPUsPerNode, gpuType).Interconnect(names.InterconnectNVLink)
	}
	inventory, err := load.Inventory(name, memory, true)
	if h == sliced {
		inventory, err = slicedInventory(name, memory)
	}
	if err != nil {
		return nil, err
	}
	node := b.Annotate(names.AnnotationInventory, inventory).Obj()
	if h == sliced {
		node.Status.Allocatable[migSlice] = *resource.NewQuantity(slicesPerCard*load.GPUsPerNode, resource.DecimalSI)
	}
	if a.uneven {
		node.Status.Allocatable[corev1.ResourceMemory] = *resource.NewQuantity(1<<40-int64(i)<<20, resource.BinarySI)
	}
	return node, nil
}

func zone(i int) string { return fmt.Sprintf("zone-%d", i%zones) }

// running returns the pods on the i-th node, with the cards that a scheduler of ours has given them.
func (a *axes) running(i int, node string, h hosts) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	card := 0
	for j, size := range a.state[i/a.cells()%len(a.state)] {
		b := fixture.Pod(fmt.Sprintf("run-%s-%d", node, j))
		pool, gpuType := a.cell(i)
		b.Pool(pool).Type(gpuType)
		var memory int64
		switch h {
		case shared:
			b.SharedGPUs(int64(size), fmt.Sprintf("%dMi", cardMiB-100))
			memory = cardMiB - 100
		case sliced:
		default:
			b.GPUs(int64(size))
		}
		held, err := assignment(node, card, size, memory)
		if h == sliced {
			held, err = sliceAssignment(node, card, size)
		}
		if err != nil {
			return nil, err
		}
		pod := b.Annotate(names.AnnotationGPUDevices, held).Obj()
		if h == sliced {
			ask(pod, migSlice, int64(slicesPerCard*size))
		}
		pod.Namespace, pod.UID, pod.Spec.NodeName = namespace, types.UID(pod.Name), node
		pods = append(pods, pod)
		card += size
	}
	return pods, nil
}

// assignment is some cards of a node, from one on, as the annotation that a binding writes.
func assignment(node string, first, count int, memoryMiB int64) (string, error) {
	held := make([]gpu.Device, count)
	for i := range held {
		held[i] = gpu.Device{UUID: fixture.UUID(node, first+i), Index: first + i, MemoryMiB: memoryMiB}
	}
	return gpu.Assignment{"main": held}.Encode()
}

// slicedInventory is that of a node whose cards are all in MIG mode.
func slicedInventory(node string, memoryMiB int64) (string, error) {
	var inventory gpu.Inventory
	for i := range load.GPUsPerNode {
		card := gpu.SlicedGPU{GPU: gpu.GPU{
			UUID: fixture.UUID(node, i), Index: i, MemoryMiB: memoryMiB, Health: gpu.Healthy, NUMANode: ptr.To(i / 4),
		}}
		for j := range slicesPerCard {
			card.Slices = append(card.Slices, gpu.GPUSlice{UUID: fixture.SliceUUID(card.UUID, j), Profile: sliceProfile, MemoryMiB: 9728})
		}
		inventory.Sliced = append(inventory.Sliced, card)
	}
	return inventory.Encode()
}

// sliceAssignment is all slices of some cards of a node, from one on.
func sliceAssignment(node string, first, count int) (string, error) {
	var held []gpu.HeldSlice
	for i := first; i < first+count; i++ {
		card := fixture.UUID(node, i)
		for j := range slicesPerCard {
			held = append(held, gpu.HeldSlice{UUID: fixture.SliceUUID(card, j), Profile: sliceProfile, ParentUUID: card, GPU: i})
		}
	}
	return (&gpu.Choice{Slices: gpu.SliceAssignment{"main": held}}).Encode()
}

// ask has the first container of a pod ask for a resource.
func ask(pod *corev1.Pod, name corev1.ResourceName, amount int64) {
	quantity := *resource.NewQuantity(amount, resource.DecimalSI)
	pod.Spec.Containers[0].Resources.Requests[name] = quantity
	pod.Spec.Containers[0].Resources.Limits[name] = quantity
}

// volumes are a claim and the volume that it is bound to, which two zones of the three reach.
func volumes() []runtime.Object {
	capacity := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	return []runtime.Object{
		&corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "volume", Annotations: map[string]string{"pv.kubernetes.io/bound-by-controller": "yes"}},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: capacity, AccessModes: modes,
				ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: namespace, Name: claim, UID: claim},
				NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
					MatchExpressions: []corev1.NodeSelectorRequirement{{
						Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone(1), zone(2)},
					}},
				}}}},
			},
			Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
		},
		&corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: claim, UID: claim,
				Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"},
			},
			Spec: corev1.PersistentVolumeClaimSpec{
				VolumeName: "volume", AccessModes: modes,
				Resources: corev1.VolumeResourceRequirements{Requests: capacity},
			},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: capacity, AccessModes: modes},
		},
	}
}
