package backfill

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestWhomAReleaseHelps: those whom the promise kept out, also if it did not count any more when it ended, as nobody is told of that.
func TestWhomAReleaseHelps(t *testing.T) {
	promised := func(job string, at int) *StartReservation {
		return &StartReservation{QueuePosition: QueuePosition{Job: job, Priority: 10, Since: noon}, At: after(at), Places: map[string]NodeReservation{
			"n": {Needs: cycle.PodResourceRequests(podOf("large", 8, 0)), Leaving: sets.New[types.UID]()},
		}}
	}
	node := fixture.Node("n").GPUs(8, "T4").Obj()
	for name, tc := range map[string]struct {
		before, after []*StartReservation
		turn          QueuePosition
		want          bool
	}{
		"it is over":                    {before: []*StartReservation{promised("large", 60)}, want: true},
		"it had not counted for long":   {before: []*StartReservation{promised("large", -600)}, want: true},
		"another has come in its place": {before: []*StartReservation{promised("large", 60)}, after: []*StartReservation{promised("larger", 60)}},
		"the pod comes before it":       {before: []*StartReservation{promised("large", 60)}, turn: QueuePosition{Job: "a", Priority: 20}},
		"it is the pod's own":           {before: []*StartReservation{promised("large", 60)}, turn: QueuePosition{Job: "large"}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.turn.Job == "" {
				tc.turn = QueuePosition{Job: "a", Priority: 1, Since: noon}
			}
			promises := NewStartReservations(nil)
			promises.SetPositionFunc(func(*corev1.Pod) QueuePosition { return tc.turn })
			change := Release{before: &ReservationSet{reservations: tc.before}, after: &ReservationSet{reservations: tc.after}, owner: promises, now: after(0)}
			on := change.FreesRoomFor(podOf("a", 1, 0))
			if got := on != nil && on(node); got != tc.want {
				t.Errorf("it helps: %v, want %v", got, tc.want)
			}
		})
	}
}
