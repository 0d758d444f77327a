package gpu

import (
	"math/rand/v2"
	"testing"
)

func TestTwentyThreeOfTwentyFourSharesFit(t *testing.T) {
	a := allocatorOf(t, inventory(1, sized(46068)))
	var used Used
	fitted := 0
	for range 24 {
		allocation, reason := a.Allocate(&used, share(1, 2000))
		if !reason.IsZero() {
			want := Reason{Code: TooFewShareable, Asked: 1, Total: 1, MemoryMiB: 2000, LargestMiB: 46068, ShareableMiB: 46068}
			if reason != want {
				t.Errorf("reason is %+v, want %+v", reason, want)
			}
			continue
		}
		used.Add(&allocation.Holding)
		fitted++
	}
	if fitted != 23 || used.MemoryOn(0) != 46000 {
		t.Errorf("%d pods of 2000 MiB have %d MiB of 46068, want 23 with 46000", fitted, used.MemoryOn(0))
	}
}

func TestSharesFitBest(t *testing.T) {
	cases := map[string]struct {
		inv  Inventory
		used []int64 // MiB in use by card
		d    *Demand
		want Set
	}{
		"the fullest card that has room": {
			inv: inventory(3, sized(1000, 1000, 1000)), used: []int64{500, 700, 900}, d: share(1, 200), want: singleGPU(1),
		},
		"exactly full is room": {
			inv: inventory(3, sized(1000, 1000, 1000)), used: []int64{500, 700, 900}, d: share(1, 100), want: singleGPU(2),
		},
		"a shared card before a smaller free one, which stays whole": {
			inv: inventory(2, sized(80000, 24000)), used: []int64{10000}, d: share(1, 1000), want: singleGPU(0),
		},
		"the smallest free card": {
			inv: inventory(3, sized(80000, 24000, 48000)), d: share(1, 20000), want: singleGPU(1),
		},
		"a free card that breaks no set": {
			inv: inventory(5, sized(1000, 1000, 1000, 1000, 1000), linked(100, 0, 1), linked(100, 3, 4)), d: share(1, 1), want: singleGPU(2),
		},
		"two shares of a pod are on two cards": {
			inv: inventory(2, sized(1000, 1000)), used: []int64{10}, d: share(2, 100), want: firstPositions(2),
		},
		"a card of unknown memory is not shared": {
			inv: inventory(2, sized(0, 1000)), d: share(1, 100), want: singleGPU(1),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			a := allocatorOf(t, tc.inv)
			var used Used
			for card, mib := range tc.used {
				h := Holding{Shared: singleGPU(card), ShareMiB: mib}
				h.slots[card] = 1
				used.Add(&h)
			}
			if got := mustPlace(t, a, &used, tc.d); got.Shared != tc.want {
				t.Errorf("got %v, want %v", got.Shared, tc.want)
			}
		})
	}
}

func TestInitContainersShareAgainWhatLaterContainersHold(t *testing.T) {
	a := allocatorOf(t, inventory(2, sized(3000, 3000)))
	d := &Demand{ShareMiB: 2000, Containers: []ContainerDemand{
		{Name: "fetch", Lifetime: Init, Shared: 2},
		{Name: "watch", Lifetime: Sidecar, Shared: 1},
		{Name: "warm", Lifetime: Init, Shared: 1},
		{Name: "serve", Shared: 1},
	}}
	got := mustPlace(t, a, &Used{}, d)
	if got.MemoryOn(0) != 2000 || got.MemoryOn(1) != 2000 {
		t.Errorf("the pod holds %d and %d MiB, want 2000 of each", got.MemoryOn(0), got.MemoryOn(1))
	}
	if got.ContainerGPUs(2) != got.ContainerGPUs(3) {
		t.Errorf("the init container has %v beside the sidecar, want %v, which its successor has", got.ContainerGPUs(2), got.ContainerGPUs(3))
	}
}

// TestSharesFindAPlaceWheneverThereIsOne compares with every way to place the containers.
func TestSharesFindAPlaceWheneverThereIsOne(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	fits := 0
	for range 5000 {
		memory := make([]int64, 1+r.IntN(4))
		for i := range memory {
			memory[i] = 1 + r.Int64N(4)
		}
		d := &Demand{ShareMiB: 1}
		for range 1 + r.IntN(3) {
			d.Containers = append(d.Containers, ContainerDemand{Name: "c", Shared: 1 + r.Int64N(3)})
		}
		a := allocatorOf(t, inventory(len(memory), sized(memory...)))
		got, reason := a.Allocate(&Used{}, d)
		want := canShare(memory, d.Containers)
		if reason.IsZero() != want {
			t.Fatalf("cards %v, containers %+v: fits is %v, want %v", memory, d.Containers, reason.IsZero(), want)
		}
		if !want {
			continue
		}
		fits++
		for card := range memory {
			if got.MemoryOn(card) > memory[card] {
				t.Fatalf("card %d of %v holds %d", card, memory, got.MemoryOn(card))
			}
		}
	}
	if fits < 1000 || fits > 4000 {
		t.Errorf("%d of 5000 cases fit: the draw is too easy or too hard to show anything", fits)
	}
}

// canShare tries every set of cards for the first container, and so on.
func canShare(left []int64, containers []ContainerDemand) bool {
	if len(containers) == 0 {
		return true
	}
	for set := Set(0); set < 1<<len(left); set++ {
		if int64(set.Len()) != containers[0].Shared {
			continue
		}
		rest, ok := append([]int64(nil), left...), true
		for _, card := range set.Positions() {
			rest[card]--
			ok = ok && rest[card] >= 0
		}
		if ok && canShare(rest, containers[1:]) {
			return true
		}
	}
	return false
}
