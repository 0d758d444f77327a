package gpu

import "testing"

func TestReasons(t *testing.T) {
	large := whole(2)
	large.MemoryMinMiB = 50000
	twoShares := &Demand{ShareMiB: 600, Containers: []ContainerDemand{{Name: "a", Shared: 1}, {Name: "b", Shared: 1}}}
	cases := map[string]struct {
		inv      Inventory
		used     Set
		d        *Demand
		code     Code
		shortage bool
		detail   string
	}{
		"no cards":          {inventory(0), 0, whole(1), NoGPUs, false, "0 GPUs, 1 asked"},
		"too small a node":  {inventory(4), 0, whole(8), TooFewGPUs, false, "4 GPUs, 8 asked"},
		"memory not known":  {inventory(2, sized(0, 0)), 0, large, MemoryUnknown, false, "0 of 2 known to have any memory, 2 short"},
		"cards too small":   {inventory(2, sized(46068, 81920)), 0, large, TooFewMemory, false, "1 of 2 large enough for 50000 MiB, 1 short; the largest has 81920 MiB"},
		"cards broken":      {inventory(8, unhealthy(3)), 0, whole(8), TooFewHealthy, false, "7 of 8 healthy, 1 short"},
		"cards in use":      {inventory(8), 0b11, whole(8), TooFewFree, true, "6 of 8 free, 2 short"},
		"broken and in use": {inventory(8, unhealthy(7)), 0b11, whole(6), TooFewFree, true, "5 of 8 free, 1 short"},
		"a share in use":    {inventory(2), 0b1, share(2, 100), TooFewShareable, true, "1 of 2 with 100 MiB to share, 1 short"},
		"a share too large": {inventory(2), 0, share(1, 90000), TooFewMemory, false, "0 of 2 large enough for 90000 MiB, 1 short; the largest has 81920 MiB"},
		"shares together":   {inventory(1, sized(1000)), 0, twoShares, TooFewMemory, false, "1 of 1 large enough for 600 MiB, too few for all containers together; the largest has 1000 MiB"},
		"a share that the driver's part keeps out":    {inventory(2, reserving(800)), 0, share(1, 81900), TooFewMemory, false, "0 of 2 large enough for 81900 MiB, 1 short; the largest has 81920 MiB, of which shares can hold 81120"},
		"a share larger than the card":                {inventory(2, reserving(800)), 0, share(1, 90000), TooFewMemory, false, "0 of 2 large enough for 90000 MiB, 1 short; the largest has 81920 MiB"},
		"a share and a minimum that the card has":     {inventory(2, reserving(800)), 0, minimum(share(3, 100), 81920), TooFewGPUs, false, "2 GPUs, 3 asked"},
		"a share and a minimum that the card has not": {inventory(2, reserving(800)), 0, minimum(share(1, 100), 81921), TooFewMemory, false, "0 of 2 large enough for 81921 MiB, 1 short; the largest has 81920 MiB"},
		"a share and no cards":                        {inventory(0), 0, share(1, 100), NoGPUs, false, "0 GPUs, 1 asked"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var used Used
			used.Add(held(tc.used))
			got, reason := allocatorOf(t, tc.inv).Allocate(&used, tc.d)
			if reason.Code != tc.code || reason.IsShortage() != tc.shortage || reason.Detail() != tc.detail {
				t.Errorf("got %v, shortage %v, %q;\nwant %v, %v, %q", reason.Code, reason.IsShortage(), reason.Detail(), tc.code, tc.shortage, tc.detail)
			}
			if got.Holding != (Holding{}) || reason.IsZero() {
				t.Errorf("without a place it holds %+v", got.Holding)
			}
		})
	}
}

func TestSlowestPath(t *testing.T) {
	a := allocatorOf(t, inventory(6, switched(2, 4), linked(50, 0, 1)))
	for name, tc := range map[string]struct {
		set  Set
		want Path
	}{
		"one card has no path":              {singleGPU(0), PathNVLink},
		"NVLink":                            {singleGPU(0) | singleGPU(1), PathNVLink},
		"one switch":                        {singleGPU(2) | singleGPU(3), PathSameSwitch},
		"one NUMA node":                     {singleGPU(1) | singleGPU(2), PathSameNUMA},
		"across":                            {singleGPU(3) | singleGPU(4), PathAcross},
		"the slowest of all pairs decides":  {firstPositions(6), PathAcross},
		"the slowest inside a node of four": {firstPositions(4), PathSameNUMA},
	} {
		t.Run(name, func(t *testing.T) {
			if got := a.SlowestPath(tc.set); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
