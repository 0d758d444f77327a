package gpu_test

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/gpu"
)

// TestEqualStatesAreServedAlike fills two machines of one build with random holdings, and compares what they are given
// whenever their states are equal.
func TestEqualStatesAreServedAlike(t *testing.T) {
	var topologies gpu.Topologies
	allocator := func(names string) *gpu.Allocator {
		a, err := gpu.NewAllocator(machine(names, 81920, 81920, 40960, 40960), &topologies)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a, b := allocator("a"), allocator("b")
	if a.Hardware() != b.Hardware() {
		t.Fatal("machines that are built alike are of two builds")
	}
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[gpu.State]gpu.Used{}
	equal := 0
	for range 3000 {
		used := randomlyUsed(r, a)
		other, known := seen[used.State()]
		if !known {
			seen[used.State()] = used
			continue
		}
		equal++
		for _, d := range demands() {
			first, why := a.Allocate(&used, &d)
			second, whyNot := b.Allocate(&other, &d)
			if diff := cmp.Diff(first.Holding, second.Holding, cmp.AllowUnexported(gpu.Holding{})); diff != "" || why.Code != whyNot.Code {
				t.Fatalf("%+v: %v and %v\n%s", d, why, whyNot, diff)
			}
		}
	}
	if equal < 100 {
		t.Errorf("only %d states were equal, which proves little", equal)
	}
}

func TestBuildsThatDiffer(t *testing.T) {
	var topologies gpu.Topologies
	base := func() gpu.Inventory { return machine("n", 100, 100) }
	made, err := gpu.NewAllocator(base(), &topologies)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*gpu.Inventory){
		"a card has other memory": func(i *gpu.Inventory) { i.GPUs[1].MemoryMiB = 99 },
		"a card is ill":           func(i *gpu.Inventory) { i.GPUs[1].Health = "Xid79" },
		"there is a link":         func(i *gpu.Inventory) { i.Links = []gpu.Link{{GPUs: []int{0, 1}, NVLinks: 1}} },
		"there is one card more":  func(i *gpu.Inventory) { *i = machine("n", 100, 100, 100) },
	} {
		inventory := base()
		change(&inventory)
		other, err := gpu.NewAllocator(inventory, &topologies)
		if err != nil {
			t.Fatal(err)
		}
		if other.Hardware() == made.Hardware() {
			t.Errorf("%s, and it is the same build", name)
		}
	}
}

// machine has healthy cards of these sizes, which nothing connects.
func machine(name string, memoryMiB ...int64) gpu.Inventory {
	var inventory gpu.Inventory
	for i, memory := range memoryMiB {
		inventory.GPUs = append(inventory.GPUs, gpu.GPU{
			UUID: name + "-" + string(rune('0'+i)), Index: i, MemoryMiB: memory, Health: gpu.Healthy,
		})
	}
	return inventory
}

// randomlyUsed gives some of four cards to a few pods.
func randomlyUsed(r *rand.Rand, a *gpu.Allocator) gpu.Used {
	var used gpu.Used
	for range r.IntN(4) {
		d := demands()[r.IntN(len(demands()))]
		holding := gpu.UnknownHolding(&d)
		switch r.IntN(3) {
		case 0:
			holding = gpu.Holding{Whole: gpu.Set(1) << r.IntN(4)}
		case 1:
			if plan, reason := a.Allocate(&used, &gpu.Demand{
				Request: gpu.Request{Shared: 1}, ShareMiB: 10240, Containers: []gpu.ContainerDemand{{Name: "c", Shared: 1}},
			}); reason.IsZero() {
				holding = plan.Holding
			}
		}
		used.Add(&holding)
	}
	return used
}

func demands() []gpu.Demand {
	return []gpu.Demand{
		{Request: gpu.Request{Whole: 1}, Containers: []gpu.ContainerDemand{{Name: "c", Whole: 1}}},
		{Request: gpu.Request{Whole: 2}, Containers: []gpu.ContainerDemand{{Name: "c", Whole: 2}}},
		{Request: gpu.Request{Shared: 2}, ShareMiB: 20480, Containers: []gpu.ContainerDemand{{Name: "c", Shared: 2}}},
		{Request: gpu.Request{Shared: 1}, ShareMiB: 70000, Containers: []gpu.ContainerDemand{{Name: "c", Shared: 1}}},
	}
}
