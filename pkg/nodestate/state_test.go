package nodestate

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestOf reads what our controllers write.
func TestOf(t *testing.T) {
	taint := func(key, value string) corev1.Taint { return corev1.Taint{Key: key, Value: value} }
	until := now.Add(time.Minute)
	violation := Violation{Constraint: "gpuTypes", Has: "T4", Wants: "H20", Text: "its gpu-type is T4, and must be one of H20"}
	tests := map[string]struct {
		taints []corev1.Taint
		record Record
		broken []Violation
		want   []State
		closed bool
	}{
		"a node that is well":                   {},
		"one that has been suspect":             {record: Record{Failures: 3, Last: now}},
		"a taint that is none of ours":          {taints: []corev1.Taint{taint("team", "a")}},
		"what breaks a constraint, and no more": {broken: []Violation{violation}},
		"suspect, and not ready": {
			taints: []corev1.Taint{taint(g8s.TaintSuspect, g8s.SuspectNotReady)}, record: Record{Failures: 1, Last: now}, closed: true,
			want: []State{{Code: Suspect, Reason: "NotReady", Failures: 1, Since: &now, Text: "suspect: it was not ready"}},
		},
		"suspect, and well again": {
			taints: []corev1.Taint{taint(g8s.TaintSuspect, g8s.SuspectNotReady)}, record: Record{Failures: 2, Last: now, Until: until}, closed: true,
			want: []State{{Code: Suspect, Reason: "NotReady", Failures: 2, Since: &now, Until: &until, Text: "suspect: it was not ready, failure 2"}},
		},
		"suspect by a condition": {
			taints: []corev1.Taint{taint(g8s.TaintSuspect, g8s.SuspectCondition)}, record: Record{Failures: 1, Last: now, Condition: "XIDFatal"}, closed: true,
			want: []State{{Code: Suspect, Reason: "Condition", Condition: "XIDFatal", Failures: 1, Since: &now, Text: "suspect: its condition XIDFatal was true"}},
		},
		"not admitted, and why": {
			taints: []corev1.Taint{taint(g8s.TaintNotAdmitted, "")}, broken: []Violation{violation}, closed: true,
			want: []State{{Code: NotAdmitted, Violations: []Violation{violation}, Text: "not admitted by its pool: its gpu-type is T4, and must be one of H20"}},
		},
		"not admitted, for a user who may not see why": {
			taints: []corev1.Taint{taint(g8s.TaintNotAdmitted, "")}, closed: true,
			want: []State{{Code: NotAdmitted, Text: "not admitted: it breaks a constraint of its pool"}},
		},
		"out of service by us": {
			taints: []corev1.Taint{taint(corev1.TaintNodeOutOfService, g8s.OutOfServiceByController)}, closed: true,
			want: []State{{Code: OutOfService, Reason: "Controller", Text: "out of service: its pods are ended, and their jobs run elsewhere"}},
		},
		"out of service by a person": {
			taints: []corev1.Taint{taint(corev1.TaintNodeOutOfService, "nodeshutdown")}, closed: true,
			want: []State{{Code: OutOfService, Reason: "Other", Text: "out of service: its pods are ended, and their jobs run elsewhere"}},
		},
		"held by the budget": {
			record: Record{Failures: 1, Last: now, Held: &Held{Reason: HeldByBudget}},
			want: []State{{Code: NotTakenForDead, Reason: "Budget", Since: &now,
				Text: "not taken for dead: more nodes of the pool are silent at once than the budget allows"}},
		},
		"held by a pod": {
			record: Record{Failures: 1, Last: now, Held: &Held{Reason: HeldByPod, Pod: "team/sft-0"}},
			want: []State{{Code: NotTakenForDead, Reason: "NoMigration", Pod: "team/sft-0", Since: &now,
				Text: "not taken for dead: pod team/sft-0 is not to be moved without a person"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			text, err := tc.record.EncodeAnnotation()
			if err != nil {
				t.Fatal(err)
			}
			node := annotated(text)
			node.Spec.Taints = tc.taints
			if diff := cmp.Diff(tc.want, StatesOf(node, tc.broken)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if IsClosed(node) != tc.closed {
				t.Errorf("closed: %v, want %v", !tc.closed, tc.closed)
			}
		})
	}
}

// TestWhatOthersWriteOnANodeIsNotTrusted: an annotation that is not ours hides no taint, and brings nobody down.
func TestWhatOthersWriteOnANodeIsNotTrusted(t *testing.T) {
	for _, text := range []string{"{", `{"failures":-1}`, strings.Repeat("[", 10000), `{"held":{}}`, `null`} {
		node := annotated(text)
		node.Spec.Taints = []corev1.Taint{{Key: g8s.TaintSuspect}, {Key: g8s.TaintMoving, Value: "soon"}}
		states := StatesOf(node, nil)
		if len(states) < 2 || states[0].Code != Suspect || states[1].Code != Moving || states[1].Until != nil {
			t.Errorf("%.20s: %+v", text, states)
		}
	}
}
