package diagnosis

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

func TestReservedNodes(t *testing.T) {
	const kept = "0/1 nodes are available: 1 node(s) are kept for others by a GPUReservation."
	window := func(from, to time.Duration, namespaces ...string) *names.GPUReservation {
		return &names.GPUReservation{ObjectMeta: metav1.ObjectMeta{Name: "firmware"}, Spec: names.GPUReservationSpec{
			Nodes: []string{"n1"}, From: metav1.NewTime(noon.Add(from)), To: metav1.NewTime(noon.Add(to)), Namespaces: namespaces,
		}}
	}
	tests := map[string]struct {
		window *names.GPUReservation
		change func(*Facts)
		cause  reason.Cause
		says   []string
		silent []string
	}{
		"a job without a time limit": {
			window: window(2*time.Hour, 4*time.Hour), cause: reason.ReservedNode,
			says: []string{"1 node kept from 2026-01-01 14:00 UTC to 2026-01-01 16:00 UTC by GPUReservation firmware, for maintenance; without a time limit",
				"set resources.time-limit to at most 1h52m", "this reservation ends at 2026-01-01 16:00 UTC"},
		},
		"one with a limit that is too long": {
			window: window(2*time.Hour, 4*time.Hour, "other"), cause: reason.ReservedNode,
			change: func(f *Facts) { f.Pods[0].Spec.ActiveDeadlineSeconds = ptr.To[int64](7200) },
			says:   []string{"for namespaces other; within its time limit", "1h52m"},
		},
		"a service, which has no time limit": {
			window: window(2*time.Hour, 4*time.Hour), cause: reason.ReservedNode,
			change: func(f *Facts) { f.Job.Kind = "inference" }, silent: []string{"resources.time-limit"},
		},
		"the window is there": {
			window: window(-time.Hour, time.Hour), cause: reason.ReservedNode, silent: []string{"resources.time-limit", "could still run"},
		},
		"there is no time left for a limit": {
			window: window(time.Minute, time.Hour), cause: reason.ReservedNode, silent: []string{"resources.time-limit"},
		},
		"another one comes after it": {
			window: window(time.Hour, 2*time.Hour), cause: reason.ReservedNode,
			change: func(f *Facts) {
				next := window(3*time.Hour, 5*time.Hour, "other").DeepCopy()
				next.Name = "paper"
				theirs := window(3*time.Hour, 9*time.Hour, "team").DeepCopy()
				theirs.Name = "theirs"
				f.Cluster.GPUReservations = append(f.Cluster.GPUReservations, *next, *theirs)
			},
			says:   []string{"by GPUReservation firmware, for maintenance", "; then kept from 2026-01-01 15:00 UTC to 2026-01-01 17:00 UTC by GPUReservation paper", "the last of these reservations ends at 2026-01-01 17:00 UTC"},
			silent: []string{"theirs", "this reservation ends"},
		},
		"it is over, and the scheduler has not tried since": {window: window(-2*time.Hour, -time.Second), cause: reason.RoomNow},
		"it is theirs by now":                               {window: window(-2*time.Hour, time.Hour, "team"), cause: reason.RoomNow},
		"who may not see reservations believes the scheduler": {
			change: func(f *Facts) { f.Cluster.MarkUnread(snapshot.PartGPUReservations) }, cause: reason.ReservedNode,
			says: []string{"are kept for others, or for maintenance", "kubectl get gpureservations"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			facts := factsOf(refused(fixture.Pod("p").GPUs(4).Pool("p"), kept), node("n1", "p", 8))
			facts.Cluster.Pods = []corev1.Pod{}
			if tc.window != nil {
				facts.Cluster.GPUReservations = []names.GPUReservation{*tc.window}
			}
			if tc.change != nil {
				tc.change(&facts)
			}
			report := Diagnose(facts)
			found := report.Findings[0]
			text := found.Text
			for _, step := range found.Steps {
				text += "\n" + step.Text
			}
			if report.Cause != tc.cause {
				t.Errorf("the cause is %s, want %s: %s", report.Cause, tc.cause, text)
			}
			for _, want := range tc.says {
				if !strings.Contains(text, want) {
					t.Errorf("it does not say %q:\n%s", want, text)
				}
			}
			for _, not := range tc.silent {
				if strings.Contains(text, not) {
					t.Errorf("it says %q:\n%s", not, text)
				}
			}
		})
	}
}
