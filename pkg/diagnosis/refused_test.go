package diagnosis

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestARefusalComesFirst: a pod that is refused wherever it goes waits for that, and not for the room that there is or is not.
func TestARefusalComesFirst(t *testing.T) {
	const refusal = `pods "p" is forbidden: ValidatingAdmissionPolicy 'no-train' denied request: 3 node(s) didn't match pod anti-affinity rules`
	told := reason.PlaceRefused.Text.FormatText("2026-01-01T12:04:00Z", "2m0s", refusal)
	for name, tc := range map[string]struct {
		verdict string
		full    bool
		also    reason.Cause
	}{
		"at its binding":                                    {verdict: told},
		"at its binding, and it is full now":                {verdict: told, full: true, also: reason.Busy},
		"before the last attempt, as it says":               {verdict: "0/1 nodes are available: 1 Insufficient cpu. " + told, full: true, also: reason.Busy},
		"before the last attempt, and there is room by now": {verdict: "0/1 nodes are available: 1 Insufficient cpu. " + told},
	} {
		t.Run(name, func(t *testing.T) {
			facts := factsOf(refused(fixture.Pod("p").GPUs(4).Pool("p"), tc.verdict), node("n1", "p", 8))
			facts.Cluster.Pods = []corev1.Pod{}
			if tc.full {
				facts.Cluster.Pods = []corev1.Pod{on("n1", 8, "other")}
			}
			report := Diagnose(facts)
			if report.Cause != reason.RefusedAtBinding || !strings.Contains(report.Findings[0].Text, refusal) || len(report.Findings[0].Advice) == 0 {
				t.Fatalf("it says %+v", report.Findings)
			}
			var also reason.Cause
			if len(report.Findings) > 1 {
				also = report.Findings[1].Cause
			}
			if also != tc.also || len(report.Findings) > 2 {
				t.Errorf("beside that it says %+v, want %q", report.Findings[1:], tc.also)
			}
		})
	}
}
