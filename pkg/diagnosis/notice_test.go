package diagnosis

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/notice"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

// noticed is a pod of a job that was told to leave for another.
func noticed(by notice.Preemptor, saves bool) corev1.Pod {
	pod := on("n1", 8, "train")
	told := notice.Notice{At: noon.Add(-time.Minute), Until: noon.Add(4 * time.Minute), For: by, Awaited: true}
	pod.Annotations = map[string]string{names.AnnotationPreemptionNotice: told.AnnotationText()}
	if saves {
		pod.Annotations[names.AnnotationCheckpointedAt] = noon.Format(time.RFC3339)
	}
	return pod
}

// TestAJobThatIsToLeaveSaysForWhomAndWhen, as long as it runs.
func TestAJobThatIsToLeaveSaysForWhomAndWhen(t *testing.T) {
	by := notice.Preemptor{Namespace: "team", Pod: "urgent-0", UID: "urgent"}
	for name, tc := range map[string]struct {
		pod   corev1.Pod
		says  string
		saves bool
	}{
		"it has not answered": {pod: noticed(by, false), says: "told at 11:59:00 that it is to leave by 12:04:00 for pod urgent-0 of namespace team, " +
			"which has a higher priority; 0 of 1 pods have saved their work since", saves: true},
		"it has":                  {pod: noticed(by, true), says: "1 of 1 pods have saved their work since"},
		"it was told nothing":     {pod: on("n1", 8, "train")},
		"what it was told is odd": {pod: noticed(notice.Preemptor{}, false)},
	} {
		t.Run(name, func(t *testing.T) {
			f := factsOf(tc.pod, node("n1", "p", 8))
			f.Job = inventory.JobDetail{Job: inventory.Job{Name: "train", Namespace: "team", Kind: "training", Status: inventory.StatusRunning}}
			report := Diagnose(f)
			if tc.says == "" {
				if report.Cause != reason.Running {
					t.Fatalf("it says %+v", report.Findings)
				}
				return
			}
			if report.Cause != reason.EvictionNotified || !strings.Contains(report.Findings[0].Text, tc.says) {
				t.Fatalf("it says %+v", report.Findings)
			}
			if asks := strings.Contains(strings.Join(report.Findings[0].Advice, ";"), "--overwrite g8s.host/checkpointed-at="); asks != tc.saves {
				t.Errorf("it advises %v", report.Findings[0].Advice)
			}
		})
	}
}

// TestWhoOthersLeaveForSaysUntilWhen, from the scheduler's word or, before it has said so, from theirs.
func TestWhoOthersLeaveForSaysUntilWhen(t *testing.T) {
	const want = "there is room for it by 2026-11-22T14:10:00Z at the latest"
	const full = "0/1 nodes are available: 1 node(s) had too few free GPUs. preemption: "
	waits := func(verdict, nominated string) corev1.Pod {
		pod := refused(fixture.Pod("urgent-0").GPUs(8).Pool("p"), verdict)
		pod.UID, pod.Status.NominatedNodeName = "urgent", nominated
		return pod
	}
	victim := noticed(notice.Preemptor{Namespace: waits("", "").Namespace, Pod: "urgent-0", UID: "urgent"}, false)
	told, _ := notice.FromPod(&victim)
	told.Until = time.Date(2026, 11, 22, 14, 10, 0, 0, time.UTC)
	victim.Annotations[names.AnnotationPreemptionNotice] = told.AnnotationText()
	other := victim
	told.For.UID = "other"
	other.Annotations = map[string]string{names.AnnotationPreemptionNotice: told.AnnotationText()}
	for name, tc := range map[string]struct {
		pod    corev1.Pod
		holder corev1.Pod
		says   bool
	}{
		"the scheduler says so":              {pod: waits(full+reason.EvictionPending.Text.FormatText("2026-11-22T14:10:00Z"), "n1"), holder: on("n1", 8, "train"), says: true},
		"it said so before":                  {pod: waits(full+reason.EvictionPending.Text.FormatText("2026-11-22T14:10:00Z"), ""), holder: on("n1", 8, "train")},
		"those that leave show it":           {pod: waits(full, "n1"), holder: victim, says: true},
		"they leave for another":             {pod: waits(full, "n1"), holder: other},
		"they leave where it is not to come": {pod: waits(full, "n2"), holder: victim},
	} {
		t.Run(name, func(t *testing.T) {
			report := Diagnose(factsOf(tc.pod, node("n1", "p", 8)).with(func(f *Facts) { f.Cluster.Pods = []corev1.Pod{tc.holder} }))
			if says := strings.Contains(report.Findings[0].Text, want); says != tc.says || says != (report.Cause == reason.Preempting) {
				t.Errorf("cause %s, %+v", report.Cause, report.Findings)
			}
		})
	}
}
