package coscheduling

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
)

// TestOneTimerMakesAllAttemptsOfAGang: each at its time, whichever was planned first, and none after the gang is gone.
func TestOneTimerMakesAllAttemptsOfAGang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // of made: each attempt is a goroutine of its own
		var made []phase.Reason
		r := (&Plugin{now: time.Now}).newGangs()
		r.wake = func(g gang, planned phase.NextAttempt) {
			due := r.takeDue(g, planned)
			mu.Lock()
			defer mu.Unlock()
			made = append(made, due...)
		}
		madeByNow := func() []phase.Reason {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(made)
		}
		g, start := gang{group: types.NamespacedName{Namespace: "ns", Name: "g"}}, time.Now()
		r.planAttempt(g, phase.VictimsProtected, start.Add(time.Hour))
		r.planAttempt(g, phase.SearchTurn, start.Add(time.Minute))
		r.planAttempt(g, phase.PlaceLost, start.Add(time.Minute))
		r.planAttempt(g, phase.FilterRejected, start.Add(2*time.Minute))
		r.planAttempt(g, phase.FilterRejected, start.Add(time.Second)) // sooner than it was planned
		for _, step := range []struct {
			until time.Duration
			want  []phase.Reason
		}{
			{time.Second, []phase.Reason{phase.FilterRejected}},
			{30 * time.Minute, []phase.Reason{phase.FilterRejected, phase.PlaceLost, phase.SearchTurn}},
		} {
			time.Sleep(time.Until(start.Add(step.until)))
			if got := madeByNow(); !slices.Equal(got, step.want) {
				t.Errorf("after %s: the attempts are %v, want %v", step.until, got, step.want)
			}
		}
		r.dropGang(g)
		time.Sleep(2 * time.Hour)
		if got := madeByNow(); len(got) != 3 || len(r.states) != 0 {
			t.Errorf("%v are made of a gang that is gone, and %d states kept", got, len(r.states))
		}
	})
}

// TestPlacesOfAGangAddUp, whichever way a member takes: the counts of its state are those of the places.
func TestPlacesOfAGangAddUp(t *testing.T) {
	r := (&Plugin{now: time.Now}).newGangs()
	g := gang{group: types.NamespacedName{Namespace: "ns", Name: "g"}}
	r.movePod(g, "a", "n0", phase.WaitingStage)
	r.movePod(g, "a", "n0", phase.WaitingStage) // reported twice
	r.movePod(g, "b", "n1", phase.WaitingStage)
	r.movePod(g, "c", "n2", phase.PassedStage)
	r.recordBinding(g, "c", "n2", 3)
	if s := r.stateOf(g); s.Waiting != 2 || s.Passed != 0 || s.Bound != 1 || s.PhaseAt(time.Now()) != phase.Starting {
		t.Errorf("%d wait, %d passed and %d are bound, %s", s.Waiting, s.Passed, s.Bound, s.DescribeState(time.Now()))
	}
	if taken, _ := r.takeWaiting(g); len(taken) != 2 || taken["a"] != "n0" || r.hasPod("a") || !r.hasPod("c") {
		t.Errorf("%v were taken", taken)
	}
	r.movePod(gang{group: types.NamespacedName{Namespace: "ns", Name: "other"}}, "c", "n2", phase.BoundStage)
	if s := r.stateOf(g); s.CountPlaced() != 0 {
		t.Errorf("%d places are left of the one that joined another gang", s.CountPlaced())
	}
}
