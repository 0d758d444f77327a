package gpu

import (
	"reflect"
	"testing"
)

// FuzzParseInventory feeds arbitrary text. What is accepted must survive writing and reading, and an
// allocator made of it must keep to the cards that are healthy.
func FuzzParseInventory(f *testing.F) {
	for _, inv := range []Inventory{slicedInventory("LS", "", "S"), hybridCubeMesh(), nvSwitch(17), pcie(), inventory(3, unhealthy(1), sized(0, 1))} {
		text, err := inv.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add(`{"version":1,"gpus":[{"uuid":"a","index":3,"health":"Healthy"}],"links":[{"gpus":[3,3]}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		inv, err := ParseInventory(text)
		if err != nil {
			return
		}
		again, err := inv.Encode()
		if err != nil {
			t.Fatalf("writing what was read: %v", err)
		}
		if len(again) <= maxInventorySize {
			if read, err := ParseInventory(again); err != nil || len(read.GPUs) != len(inv.GPUs) || len(read.Sliced) != len(inv.Sliced) {
				t.Fatalf("reading what was written: %v", err)
			}
		}
		if len(inv.GPUs) > 10 {
			return // its tables take milliseconds
		}
		a := allocatorOf(t, inv)
		allocation, reason := a.Allocate(&Used{}, whole(2))
		if reason.IsZero() && (allocation.Whole&^a.HealthyGPUs() != 0 || allocation.Whole.Len() != 2) {
			t.Fatalf("two cards are %v of %v", allocation.Whole, a.HealthyGPUs())
		}
		if !a.NamesSlices() {
			return
		}
		if slices, reason := a.AllocateSlices(&SlicesUsed{}, asksSlices(1, 1)); reason.IsZero() && len(slices.Holding.at) != 2 {
			t.Fatalf("two slices are %v", slices.Holding.at)
		}
	})
}

// FuzzParseAssignment feeds arbitrary text. What is accepted must survive writing and reading, and resolve
// to an error or to no more than the pod asks; of slices, to as many as it asks for, whether or not they are known.
func FuzzParseAssignment(f *testing.F) {
	f.Add(`{"version":1,"containers":{"main":[{"uuid":"GPU-00","index":0},{"uuid":"GPU-01","index":1}]}}`)
	f.Add(`{"version":1,"containers":{"main":[{"uuid":"GPU-00","index":0,"memoryMiB":2048}],"side":[{"uuid":"x","index":9}]}}`)
	f.Add(choiceOfTwo)
	f.Add(`{"version":1,"slices":{"side":[{"uuid":"MIG-0-0","profile":"1g.10gb","card":"a","gpu":0}],"main":[{"uuid":"MIG-0-0","profile":"1g.10gb","card":"a","gpu":0}]}}`)
	a, sliced := allocatorOf(f, nvSwitch(4)), allocatorOf(f, slicedInventory("SSL"))
	demands := []*Demand{whole(2), share(1, 2048), {Containers: []ContainerDemand{
		{Name: "side", Lifetime: Sidecar, Whole: 1}, {Name: "main", Whole: 1, Shared: 1},
	}}}
	f.Fuzz(func(t *testing.T, text string) {
		choice, err := ParseChoice(text)
		if err != nil {
			return
		}
		again, err := choice.Encode()
		if err != nil {
			t.Fatalf("writing what was read: %v", err)
		}
		if read, err := ParseChoice(again); err != nil || !reflect.DeepEqual(read.Slices, choice.Slices) && len(choice.Slices) > 0 ||
			!reflect.DeepEqual(read.GPUs, choice.GPUs) && len(choice.GPUs) > 0 {
			t.Fatalf("reading what was written: %v", err)
		}
		of := asksSlices(2, 1)
		if held := sliced.ResolveSlices(of, choice.Slices); int64(len(held.at))+held.unknown["1g.10gb"]+held.unknown["3g.40gb"] != 3 {
			t.Fatalf("%+v resolves to %+v", choice.Slices, held)
		}
		assignment := choice.GPUs
		for _, d := range demands {
			h, err := a.Resolve(d, assignment)
			if err != nil {
				continue
			}
			if held := int64(h.Whole.Len()) + h.Unknown.Whole; held > d.wholePeak() || h.Whole&h.Shared != 0 {
				t.Fatalf("%+v resolves to %+v", assignment, h)
			}
		}
	})
}
