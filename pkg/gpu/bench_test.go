package gpu

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// irregular returns a node of which no two cards are alike.
func irregular(cards int) Inventory {
	r := rand.New(rand.NewPCG(1, 1))
	for {
		if inv := randomInventory(r, cards); len(inv.Links) > cards*cards/4 {
			return inv
		}
	}
}

// BenchmarkAllocate asks for whole cards in random states of the node, so it covers every size of set.
func BenchmarkAllocate(b *testing.B) {
	for name, inv := range map[string]Inventory{
		"8 cards, NVSwitch":         nvSwitch(8),
		"8 cards, hybrid cube mesh": hybridCubeMesh(),
		"16 cards, NVSwitch":        nvSwitch(16),
		"16 cards, random links":    irregular(16),
		"64 cards, NVSwitch":        nvSwitch(64),
	} {
		b.Run(name, func(b *testing.B) { benchmarkAllocate(b, inv) })
	}
}

func benchmarkAllocate(b *testing.B, inv Inventory) {
	a := allocatorOf(b, inv)
	r := rand.New(rand.NewPCG(7, 7))
	states := make([]Used, 256)
	demands := make([]*Demand, len(states))
	for i := range states {
		states[i].Add(held(Set(r.Uint64()) & a.all))
		demands[i] = whole(1 + r.Int64N(int64(a.FreeGPUs(&states[i]).Len()+1)))
		a.Allocate(&states[i], demands[i])
	}
	took := make([]time.Duration, 10_000)
	b.ReportAllocs()
	i := 0
	for ; b.Loop(); i++ {
		start := time.Now()
		a.Allocate(&states[i%len(states)], demands[i%len(states)])
		took[i%len(took)] = time.Since(start)
	}
	took = took[:min(i, len(took))]
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
}

// BenchmarkAllocateUnseen asks each time in a state of the node that no pod met before, for the size that
// has the most sets.
func BenchmarkAllocateUnseen(b *testing.B) {
	for name, inv := range map[string]Inventory{
		"NVSwitch":     nvSwitch(16),
		"PCIe":         inventory(16, switched(4, 8)),
		"random links": irregular(16),
	} {
		a := allocatorOf(b, inv)
		for _, free := range []Set{a.all, a.all &^ 0b1001} {
			b.Run(fmt.Sprintf("%s, half of %d cards", name, free.Len()), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					a.topology.searchBestSet(free, free.Len()/2)
				}
			})
		}
	}
}

func BenchmarkAllocateShared(b *testing.B) {
	a := allocatorOf(b, nvSwitch(16))
	var used Used
	for range 40 {
		allocation := mustPlace(b, a, &used, share(2, 7000))
		used.Add(&allocation.Holding)
	}
	d := share(4, 2000)
	b.ReportAllocs()
	for b.Loop() {
		a.Allocate(&used, d)
	}
}

func BenchmarkNewAllocator(b *testing.B) {
	for _, cards := range []int{8, 16, 64} {
		inv := nvSwitch(cards)
		b.Run(fmt.Sprintf("%d cards", cards), func(b *testing.B) {
			for b.Loop() {
				allocatorOf(b, inv)
			}
		})
		b.Run(fmt.Sprintf("%d cards, random links", cards), func(b *testing.B) {
			inv := irregular(cards)
			for b.Loop() {
				allocatorOf(b, inv)
			}
		})
		b.Run(fmt.Sprintf("%d cards, seen before", cards), func(b *testing.B) {
			var known Topologies
			for b.Loop() {
				if _, err := NewAllocator(inv, &known); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkReading reads what a new leader reads of each node and each pod: the inventory of 8 cards, and who holds two of them.
func BenchmarkReading(b *testing.B) {
	inv := nvSwitch(8)
	text, err := inv.Encode()
	if err != nil {
		b.Fatal(err)
	}
	node := &corev1.Node{}
	node.Annotations = map[string]string{names.AnnotationInventory: text}
	var known Topologies
	b.Run("node", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := AllocatorOf(node, &known); err != nil {
				b.Fatal(err)
			}
		}
	})
	a, d := allocatorOf(b, inv), whole(2)
	plan, _ := a.Allocate(&Used{}, d)
	text, err = a.BuildAssignment(d, &plan).Encode()
	if err != nil {
		b.Fatal(err)
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{gpus(d.Containers[0].Name, "2")}}}
	pod.Annotations = map[string]string{names.AnnotationGPUDevices: text}
	b.Run("pod", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := a.HoldingOf(pod); err != nil {
				b.Fatal(err)
			}
		}
	})
}
