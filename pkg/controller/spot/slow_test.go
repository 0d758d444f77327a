package spot_test

import (
	"fmt"
	"testing"
	"time"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fakecloud"
)

// TestASlowCloud takes one to ten minutes for an order, loses answers, and shows machines late, while the controller is killed at
// any of its calls: as many are bought as are asked for.
func TestASlowCloud(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			const size = 12 // more than are bought at once
			w := newWorld(t, seed, func(s *g8s.SpotPoolSpec) { s.Minimum, s.Maximum = size, size })
			w.slow(seed)
			for range 25 * 60 {
				if w.random.IntN(60) == 0 {
					w.begin(&fuse{left: w.random.IntN(25), after: w.random.IntN(2) == 0})
				}
				w.second()
				if bought := len(w.cloud.Machines()); bought > size {
					t.Fatalf("%d machines were bought, want %d", bought, size)
				}
			}
			if status := w.pool().Status; status.Joined != size {
				t.Errorf("%d machines have joined, want %d", status.Joined, size)
			}
			w.leavesNothing()
		})
	}
}

// TestASpotPoolThatGoesWhileItsOrdersAreCarriedOut leaves none of the machines that come after that.
func TestASpotPoolThatGoesWhileItsOrdersAreCarriedOut(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, seed, nil)
			w.slow(seed)
			w.run(time.Duration(10+w.random.IntN(180)) * time.Second)
			w.leavesNothing()
		})
	}
}

// slow has orders take one to ten minutes.
func (w *world) slow(seed uint64) {
	w.cloud.Slowest, w.cloud.Lag = 10*time.Minute, time.Duration(seed%4)*10*time.Second
	w.cloud.Set(fakecloud.Faults{Throttle: 0.05, LoseBefore: 0.1, LoseAfter: 0.2})
}
