package simulate_test

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/simulate"
	"g8s.host/gpu-scheduler/pkg/whatif"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestAnAnswerKnowsReservations, by the time of the question.
func TestAnAnswerKnowsReservations(t *testing.T) {
	noon := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	kept := func(from, to time.Duration, namespaces ...string) []names.GPUReservation {
		return []names.GPUReservation{{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: names.GPUReservationSpec{
			Nodes: []string{"n"}, From: metav1.NewTime(noon.Add(from)), To: metav1.NewTime(noon.Add(to)), Namespaces: namespaces,
		}}}
	}
	for name, tc := range map[string]struct {
		kept  []names.GPUReservation
		limit *int64
		want  string
	}{
		"nothing is kept":         {nil, nil, "n"},
		"for others, ahead":       {kept(2*time.Hour, 4*time.Hour), nil, ""},
		"it would end before":     {kept(2*time.Hour, 4*time.Hour), ptr.To[int64](3600), "n"},
		"it would end too late":   {kept(2*time.Hour, 4*time.Hour), ptr.To[int64](7200), ""},
		"for others, now":         {kept(-time.Hour, time.Hour), ptr.To[int64](60), ""},
		"for them":                {kept(-time.Hour, time.Hour, "team"), nil, "n"},
		"for others, and is over": {kept(-time.Hour, 0), nil, "n"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := fixture.Pod("p").GPUs(1).Obj()
			pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
			pod.Namespace, pod.Spec.SchedulerName, pod.Spec.ActiveDeadlineSeconds = "team", names.SchedulerName, tc.limit
			raw, err := json.Marshal(pod)
			if err != nil {
				t.Fatal(err)
			}
			question := &whatif.Question{Nodes: []corev1.Node{*fixture.Node("n").GPUs(8, "A100-80G").Obj()}, Workload: []json.RawMessage{raw}, Reservations: tc.kept, Now: noon}
			outcome, err := simulate.Answer(t.Context(), question, shipped(t))
			if err != nil {
				t.Fatal(err)
			}
			if got := outcome.Pods[0].Spec.NodeName; got != tc.want {
				t.Errorf("it goes to %q, want %q: %+v", got, tc.want, outcome.Pods[0].Status)
			}
		})
	}
}
