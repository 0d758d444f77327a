package gpu

import (
	"math/rand/v2"
	"testing"
)

// TestRoomIsNoLessThanWhatIsServed allocates for one demand after the other until there is no more, on random cards.
func TestRoomIsNoLessThanWhatIsServed(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	exact := 0
	const rounds = 2000
	for range rounds {
		inventory := Inventory{}
		for i := range 1 + r.IntN(8) {
			health := Healthy
			if r.IntN(6) == 0 {
				health = "Xid79"
			}
			inventory.GPUs = append(inventory.GPUs, GPU{UUID: string(rune('a' + i)), Index: i, MemoryMiB: int64(1+r.IntN(4)) * 1000, Health: health})
		}
		allocator, err := NewAllocator(inventory, nil)
		if err != nil {
			t.Fatal(err)
		}
		var used Used
		for range r.IntN(4) {
			other := demandIn(r)
			if allocation, reason := allocator.Allocate(&used, &other); reason.IsZero() {
				used.Add(&allocation.Holding)
			}
		}
		if r.IntN(4) == 0 {
			used.Add(&Holding{Unknown: Unknown{Whole: 1}})
		}
		d := demandIn(r)
		room, served := allocator.RoomFor(&used, &d), int64(0)
		for {
			allocation, reason := allocator.Allocate(&used, &d)
			if !reason.IsZero() {
				break
			}
			used.Add(&allocation.Holding)
			served++
		}
		if served > room {
			t.Fatalf("%d are served and there was room for %d: %+v on %+v", served, room, d, inventory)
		}
		if served == room {
			exact++
		}
	}
	if exact < rounds*9/10 {
		t.Errorf("the room is exact %d times in %d, want 9 in 10", exact, rounds)
	}
}

// demandIn is of one or two containers that share cards or have some of their own.
func demandIn(r *rand.Rand) (d Demand) {
	d.MemoryMinMiB = int64(r.IntN(2)) * 2000
	for range 1 + r.IntN(2) {
		c := ContainerDemand{Whole: int64(1 + r.IntN(3))}
		d.Whole += c.Whole
		d.Containers = append(d.Containers, c)
	}
	if r.IntN(2) == 0 {
		d.Whole, d.ShareMiB = 0, int64(1+r.IntN(20))*100
		for i := range d.Containers {
			d.Containers[i].Whole, d.Containers[i].Shared = 0, d.Containers[i].Whole
			d.Shared += d.Containers[i].Shared
		}
	}
	return d
}
