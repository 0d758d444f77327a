package gpu

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// randomDemand draws up to five containers. When mixed, containers ask for whole and shared cards at once.
func randomDemand(r *rand.Rand, mixed bool) *Demand {
	d := &Demand{ShareMiB: 1 + r.Int64N(30000)}
	sharing := r.IntN(2) == 0
	for i := range 1 + r.IntN(5) {
		c := ContainerDemand{Name: fmt.Sprintf("c%d", i)}
		if i < 3 {
			c.Lifetime = Lifetime(r.IntN(3)) // init containers and sidecars start before the main ones
		}
		if sharing || mixed {
			c.Shared = r.Int64N(3)
		}
		if !sharing || mixed {
			c.Whole = r.Int64N(3)
		}
		if c.Whole+c.Shared > 0 {
			d.Containers = append(d.Containers, c)
		}
	}
	for i := len(d.Containers) - 2; i >= 0; i-- { // nothing starts after the first main container but main ones
		if d.Containers[i].Lifetime == Main {
			for j := range d.Containers[i:] {
				d.Containers[i+j].Lifetime = Main
			}
		}
	}
	d.Whole = d.wholePeak()
	return d
}

// TestAnAssignmentResolvesToWhatWasAllocated goes the whole way that a choice takes through a restart.
func TestAnAssignmentResolvesToWhatWasAllocated(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	placed := 0
	for range 20_000 {
		a := allocatorOf(t, nvSwitch(2+r.IntN(7)))
		d := randomDemand(r, r.IntN(3) == 0)
		allocation, reason := a.Allocate(&Used{}, d)
		if !reason.IsZero() || len(d.Containers) == 0 {
			continue
		}
		placed++
		text, err := a.BuildAssignment(d, &allocation).Encode()
		if err != nil {
			t.Fatalf("demand %+v: %v", d, err)
		}
		assignment, err := ParseAssignment(text)
		if err != nil {
			t.Fatalf("demand %+v: reading %s: %v", d, text, err)
		}
		got, err := a.Resolve(d, assignment)
		if err != nil {
			t.Fatalf("demand %+v: resolving %s: %v", d, text, err)
		}
		if got != allocation.Holding {
			t.Fatalf("demand %+v: %s resolves to %+v, want %+v", d, text, got, allocation.Holding)
		}
	}
	if placed < 5000 {
		t.Errorf("only %d demands had a place", placed)
	}
}

func TestResolveRefuses(t *testing.T) {
	a := allocatorOf(t, inventory(4))
	pod := &Demand{Containers: []ContainerDemand{
		{Name: "init", Lifetime: Init, Whole: 1}, {Name: "side", Lifetime: Sidecar, Whole: 1}, {Name: "main", Whole: 1},
	}}
	sharing := &Demand{ShareMiB: 100, Containers: []ContainerDemand{{Name: "a", Shared: 1}, {Name: "b", Shared: 1}}}
	mixed := &Demand{ShareMiB: 100, Containers: []ContainerDemand{{Name: "a", Whole: 1}, {Name: "b", Shared: 1}}}
	device := func(card int) []Device { return []Device{{UUID: fmt.Sprintf("GPU-%02d", card), Index: card}} }
	part := func(card int, mib int64) []Device {
		return []Device{{UUID: fmt.Sprintf("GPU-%02d", card), Index: card, MemoryMiB: mib}}
	}
	cases := map[string]struct {
		d          *Demand
		assignment Assignment
		wantErr    string
	}{
		"an init container uses a main container's card": {d: pod, assignment: Assignment{"init": device(1), "side": device(0), "main": device(1)}},
		"a card for two containers at once":              {pod, Assignment{"init": device(1), "side": device(1), "main": device(1)}, "container main: it has a whole device together with container side"},
		"more cards than are ever asked for at once":     {pod, Assignment{"init": device(2), "side": device(0), "main": device(1)}, "the containers hold 3 GPUs, and never ask for more than 2 at once"},
		"a container is missing":                         {pod, Assignment{"side": device(0), "main": device(1)}, "2 containers have devices, 3 ask for them"},
		"another pod's containers":                       {pod, Assignment{"x": device(0), "y": device(1), "z": device(2)}, "it has 0 whole and 0 shared devices, and asks for 1 and 0"},
		"a share for a whole card":                       {pod, Assignment{"init": device(1), "side": device(0), "main": part(1, 100)}, "container main: it has 0 whole and 1 shared devices"},
		"two shares of one card":                         {d: sharing, assignment: Assignment{"a": part(3, 100), "b": part(3, 100)}},
		"what was given may differ from what is asked":   {d: sharing, assignment: Assignment{"a": part(3, 7), "b": part(2, 7)}},
		"shares that differ":                             {sharing, Assignment{"a": part(3, 100), "b": part(2, 200)}, "container b: it has 200 MiB of a card and another share is 100 MiB"},
		"a card whole and shared":                        {mixed, Assignment{"a": device(0), "b": part(0, 100)}, "a device is both whole and shared"},
		"no assignment":                                  {sharing, nil, "0 containers, want 1 to 32"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := a.Resolve(tc.d, tc.assignment); !errorHas(err, tc.wantErr) {
				t.Errorf("error is %v, want %q", err, tc.wantErr)
			}
		})
	}
}

func TestCardsThatTheInventoryDoesNotHaveAreUnknown(t *testing.T) {
	a := allocatorOf(t, inventory(2))
	d := &Demand{Containers: []ContainerDemand{{Name: "main", Whole: 3}}}
	got, err := a.Resolve(d, Assignment{"main": {{UUID: "index-0"}, {UUID: "GPU-01"}, {UUID: "index-2"}}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Unknown{Whole: 2}, got.Unknown); diff != "" || got.Whole != singleGPU(1) {
		t.Errorf("cards %v, unknown (-want +got):\n%s", got.Whole, diff)
	}
	d = &Demand{ShareMiB: 5, Containers: []ContainerDemand{{Name: "a", Shared: 1}, {Name: "b", Shared: 2}}}
	got, err = a.Resolve(d, Assignment{"a": {{UUID: "x", MemoryMiB: 5}}, "b": {{UUID: "x", MemoryMiB: 5}, {UUID: "GPU-00", MemoryMiB: 5}}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Unknown{Shared: 1, ShareMiB: 10}, got.Unknown); diff != "" || got.MemoryOn(0) != 5 {
		t.Errorf("%d MiB on card 0, unknown (-want +got):\n%s", got.MemoryOn(0), diff)
	}
}
