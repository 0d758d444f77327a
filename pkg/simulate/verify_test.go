package simulate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/simulate"
	"g8s.host/gpu-scheduler/pkg/simulate/recording"
)

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// history builds a recording of nodes n0, n1 ... of two GPUs each, an event a second, or at a time that a test sets.
type history struct {
	recording.Recording
	at time.Time
}

func newHistory(nodes int) *history {
	h := &history{}
	h.Start, h.Nodes = start, simulate.NodesFromTrace(machines(nodes, 2))
	return h
}

func (h *history) add(kind watch.EventType, pod *corev1.Pod) {
	revision, at := int64(len(h.Events)+1), h.at
	if at.IsZero() {
		at = start.Add(time.Duration(revision) * time.Second)
	}
	h.Events = append(h.Events, recording.Event{Type: kind, At: at, Revision: revision, Pod: pod})
}

// comes is a pod that asks for GPUs.
func (h *history) comes(name string, gpus int) *corev1.Pod {
	pod := st.MakePod().Namespace("ns").Name(name).UID(name).SchedulerName(names.SchedulerName).
		Req(map[corev1.ResourceName]string{names.ResourceGPU: fmt.Sprint(gpus)}).Obj()
	pod.Spec.Containers[0].Name = "main"
	h.add(watch.Added, pod)
	return pod
}

// bound is the binding of a pod to the cards of a node, decided as the annotation says.
func (h *history) bound(pod *corev1.Pod, node, decision string, cards ...int) *corev1.Pod {
	devices := ""
	for _, card := range cards {
		if devices != "" {
			devices += ","
		}
		devices += fmt.Sprintf(`{"uuid":"index-%d","index":%d}`, card, card)
	}
	bound := pod.DeepCopy()
	bound.Spec.NodeName = node
	bound.Annotations = map[string]string{
		names.AnnotationGPUDevices: `{"version":1,"containers":{"main":[` + devices + `]}}`, names.AnnotationDecision: decision,
	}
	h.add(watch.Modified, bound)
	return bound
}

func (h *history) refused(pod *corev1.Pod) {
	refused := pod.DeepCopy()
	refused.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/1 nodes are available",
	}}
	h.add(watch.Modified, refused)
}

func TestVerify(t *testing.T) {
	tests := map[string]struct {
		nodes  int
		record func(*history)
		// same and all count placements, then refusals.
		same, all [2]int
	}{
		"bindings arrive in another order than they were decided in": {
			nodes: 1, same: [2]int{2, 0}, all: [2]int{2, 0},
			record: func(h *history) {
				a, b := h.comes("a", 1), h.comes("b", 1)
				h.bound(b, "n0", "2/2", 1)
				h.bound(a, "n0", "1/2", 0)
			},
		},
		"without numbers, the order of the bindings counts": {
			nodes: 1, same: [2]int{1, 0}, all: [2]int{2, 0},
			record: func(h *history) { // the second card is not the first choice, the first is for whom comes next
				a, b := h.comes("a", 1), h.comes("b", 1)
				h.bound(b, "n0", "", 1)
				h.bound(a, "n0", "", 0)
			},
		},
		"a decision that lags behind the coming of its pod": {
			nodes: 1, same: [2]int{2, 0}, all: [2]int{2, 0},
			record: func(h *history) {
				h.bound(h.comes("a", 1), "n0", "1/0", 0)
				h.bound(h.comes("b", 1), "n0", "2/2", 1) // the first card is taken
			},
		},
		"a pod that came with a node holds its cards": {
			nodes: 1, same: [2]int{1, 0}, all: [2]int{1, 0},
			record: func(h *history) {
				a := h.comes("a", 1)
				h.Events = nil
				h.bound(a, "n0", "1/0", 0)
				h.bound(h.comes("b", 1), "n0", "2/2", 1)
			},
		},
		"a pod left after the decision and before the binding": {
			nodes: 1, same: [2]int{2, 0}, all: [2]int{2, 0},
			record: func(h *history) {
				a := h.bound(h.comes("a", 1), "n0", "1/1", 0)
				b := h.comes("b", 1)
				h.add(watch.Deleted, a)
				h.bound(b, "n0", "2/3", 1)
			},
		},
		"a pod that has ended holds nothing": {
			nodes: 1, same: [2]int{2, 0}, all: [2]int{2, 0},
			record: func(h *history) {
				a := h.bound(h.comes("a", 2), "n0", "1/1", 0, 1)
				done := a.DeepCopy()
				done.Status.Phase = corev1.PodSucceeded
				h.add(watch.Modified, done)
				h.bound(h.comes("b", 1), "n0", "2/4", 0)
			},
		},
		"a refusal for which there is no room": {
			nodes: 1, same: [2]int{1, 1}, all: [2]int{1, 1},
			record: func(h *history) {
				h.bound(h.comes("a", 2), "n0", "1/1", 0, 1)
				h.refused(h.comes("b", 1))
			},
		},
		"a refusal that was reported when the room had become free": {
			nodes: 1, same: [2]int{1, 1}, all: [2]int{1, 1},
			record: func(h *history) {
				a := h.bound(h.comes("a", 2), "n0", "1/1", 0, 1)
				b := h.comes("b", 1)
				h.add(watch.Deleted, a)
				h.refused(b)
			},
		},
		"a refusal without a reason": {
			nodes: 1, all: [2]int{0, 1},
			record: func(h *history) { h.refused(h.comes("a", 1)) },
		},
		"another node than ours": {
			nodes: 2, same: [2]int{1, 0}, all: [2]int{2, 0},
			record: func(h *history) {
				h.bound(h.comes("a", 2), "n0", "1/1", 0, 1)
				h.bound(h.comes("b", 2), "n0", "2/3", 0, 1) // which is full
			},
		},
		"a place that is kept for a nominated pod": {
			nodes: 1, same: [2]int{0, 1}, all: [2]int{0, 1},
			record: func(h *history) {
				nominated := h.comes("a", 2).DeepCopy()
				nominated.Status.NominatedNodeName = "n0"
				h.add(watch.Modified, nominated)
				h.refused(h.comes("b", 1))
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHistory(tc.nodes)
			tc.record(h)
			got, err := simulate.Verify(t.Context(), &h.Recording, shipped(t), simulate.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.same, [2]int{got.SamePlace, got.SameRefusals}); diff != "" {
				t.Errorf("the same placements and refusals (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.all, [2]int{got.Placements, got.Refusals}); diff != "" {
				t.Errorf("placements and refusals (-want +got):\n%s", diff)
			}
			if want := tc.all[0] + tc.all[1] - tc.same[0] - tc.same[1]; len(got.Differences) != want {
				t.Errorf("%d differences, want %d: %+v", len(got.Differences), want, got.Differences)
			}
		})
	}
}

// TestARecordingHasAClock: a large job that was first in line, among pods with deadlines, is promised a start when they are gone, and
// who withdraws is promised nothing.
func TestARecordingHasAClock(t *testing.T) {
	for name, tc := range map[string]struct {
		withdraws bool
		want      map[string]float64
	}{
		"it waits":     {want: map[string]float64{"ns/large": 1200, "ns/small": 4800}},
		"it withdraws": {withdraws: true, want: map[string]float64{"ns/small": 900}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(1)
			at := func(seconds int) { h.at = h.Start.Add(time.Duration(seconds) * time.Second) }
			limited := func(pod *corev1.Pod, seconds int64) *corev1.Pod {
				pod.Spec.ActiveDeadlineSeconds = ptr.To(seconds)
				return pod
			}
			first, second := limited(h.bound(h.comes("first", 1), "n0", "1/1", 0), 560), limited(h.bound(h.comes("second", 1), "n0", "2/1", 1), 1160)
			for _, pod := range []*corev1.Pod{first, second} {
				pod.Status.StartTime = ptr.To(metav1.NewTime(h.Start))
			}
			h.Events, h.Pods = nil, []*corev1.Pod{first, second}
			at(60)
			large := h.comes("large", 2)
			at(120)
			small := h.comes("small", 1)
			at(600)
			h.add(watch.Deleted, first)
			if tc.withdraws {
				at(900)
				h.add(watch.Deleted, large)
			}
			at(1200)
			h.add(watch.Deleted, second)
			if !tc.withdraws {
				large = h.bound(large, "n0", "3/1", 0, 1)
				at(4800)
				h.add(watch.Deleted, large)
			}
			small = h.bound(small, "n0", "4/1", 0)
			at(9000)
			h.add(watch.Deleted, small)
			cluster, arrivals := simulate.FromRecording(&h.Recording, []string{names.SchedulerName})
			result, err := simulate.Run(t.Context(), cluster, arrivals, shipped(t), simulate.Options{Start: cluster.Began})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]float64{}
			for _, decision := range result.Decisions {
				got[decision.Pod] = decision.At
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("starts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFromRecording has a pod that waits for one that runs, and one that gave up waiting.
func TestFromRecording(t *testing.T) {
	h := newHistory(1)
	there := h.bound(h.comes("there", 1), "n0", "1/1", 0)
	h.Events, h.Pods = nil, []*corev1.Pod{there}
	ran := h.bound(h.comes("ran", 1), "n0", "2/1", 1) // 1 s, and bound at 2 s
	h.comes("waited", 2)
	gaveUp := h.comes("gave-up", 2)
	h.add(watch.Deleted, gaveUp) // 5 s
	h.add(watch.Deleted, there)  // 6 s
	h.add(watch.Deleted, ran)    // 7 s
	cluster, arrivals := simulate.FromRecording(&h.Recording, []string{names.SchedulerName})
	result, err := simulate.Run(t.Context(), cluster, arrivals, shipped(t), simulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, decision := range result.Decisions {
		got[decision.Pod] = decision.At
	}
	// ran starts a second earlier than it did, so it ends a second earlier too.
	if diff := cmp.Diff(map[string]float64{"ns/ran": 1, "ns/waited": 6}, got); diff != "" {
		t.Errorf("starts (-want +got):\n%s", diff)
	}
	if result.Arrivals != 3 || result.Placed != 2 || result.Withdrawn != 1 {
		t.Errorf("%d came, %d were placed and %d withdrawn", result.Arrivals, result.Placed, result.Withdrawn)
	}
}
