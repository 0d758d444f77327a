package coscheduling

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/backfill"
	"g8s.host/gpu-scheduler/pkg/cycle"
)

// TestAGangSparesWhatWasPromisedBehindIt where it lies as close elsewhere, and takes it where it does not.
func TestAGangSparesWhatWasPromisedBehindIt(t *testing.T) {
	for name, tc := range map[string]struct {
		promised []string
		busy     []int
		change   func(*corev1.Pod)
		want     string
	}{
		"nothing is promised":                {want: "n0 n1"},
		"another rack is free":               {promised: []string{"n0", "n1"}, want: "n2 n3"},
		"one node of the first is promised":  {promised: []string{"n1"}, want: "n2 n3"},
		"the other rack has room for one":    {promised: []string{"n0", "n1"}, busy: []int{2}, want: "n0 n1"},
		"it has ended by then":               {promised: []string{"n0", "n1"}, change: limitedTo(20), want: "n0 n1"},
		"all of them are promised":           {promised: []string{"n0", "n1", "n2", "n3"}, want: "n0 n1"},
		"it is promised to who comes before": {promised: []string{"n0"}, change: func(pod *corev1.Pod) { pod.Spec.Priority = ptr.To[int32](-2) }, want: "n2 n3"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newRacks(t, 4, tc.busy...)
			l.keepsClock()
			l.startReservations = promisesFor(l, 24*time.Hour)
			promise := &backfill.StartReservation{QueuePosition: backfill.QueuePosition{Job: "behind", Priority: -1, Since: noon}, At: noon.Add(time.Hour), Places: map[string]backfill.NodeReservation{}}
			for _, node := range tc.promised {
				promise.Places[node] = backfill.NodeReservation{Needs: []cycle.ResourceRequest{{Resource: names.ResourceGPU, Amount: 8}}}
			}
			l.startReservations.ReserveStart(promise)
			l.group("g", map[string]any{"minMember": int64(2)}, laidOut("preferred=rack"))
			var members []*corev1.Pod
			for _, name := range []string{"a", "b"} {
				members = append(members, l.member(name, func(pod *corev1.Pod) {
					if tc.change != nil {
						tc.change(pod)
					}
				}))
			}
			var got []string
			for _, member := range members {
				_, nodes, reason := l.aim(member)
				if reason != "" {
					t.Fatal(reason)
				}
				got = append(got, nodes...)
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("it goes to %v, want %s", got, tc.want)
			}
		})
	}
}
