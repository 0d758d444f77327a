package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestWhichNodesHaveIt is about pods that wait beside nodes which would take them, in another pool or under another label.
func TestWhichNodesHaveIt(t *testing.T) {
	many := []*fixture.NodeBuilder{node("n1", "default", 8)}
	for i := range 100 {
		many = append(many, node(fmt.Sprintf("t%03d", i), "train", 8).Label("disk", "ssd"))
	}
	gtFour := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: names.LabelCount, Operator: corev1.NodeSelectorOpGt, Values: []string{"4"}},
		}}},
	}}}
	tests := map[string]struct {
		change       func(*corev1.Pod)
		nodes        []*fixture.NodeBuilder
		cause        reason.Cause
		says, advice string
	}{
		"a label that nodes of another pool have": {
			func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"disk": "ssd"} }, many, reason.NodeSelector,
			"1 node without the labels that the job's node selector or node affinity asks for: none has disk=ssd; of pool train, these have it: t000, t001, t002, t003, t004, and 95 more",
			"Give the pod the node selector g8s.host/pool: train",
		},
		"an affinity that a node of another pool satisfies": {
			func(pod *corev1.Pod) { pod.Spec.Affinity = gtFour },
			[]*fixture.NodeBuilder{node("n1", "default", 2), node("n2", "train", 8), node("n3", "small", 2)},
			reason.NodeSelector, "; of pool train, these have it: n2", "Give the pod the node selector g8s.host/pool: train",
		},
		"a label that no node has": {
			func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"disk": "tape"} }, many, reason.NodeSelector,
			"asks for: none has disk=tape", "correct the selector of the pod",
		},
		"a type that nodes of another pool have": {
			func(pod *corev1.Pod) {
				pod.Spec.NodeSelector = map[string]string{names.LabelAccelerator: "nvidia-tesla-v100"}
			},
			[]*fixture.NodeBuilder{node("n1", "default", 8), fixture.Node("v1").Pool("train").GPUs(8, "").Label(names.LabelAccelerator, "nvidia-tesla-v100")},
			reason.TypeInOtherPool, "no node of pool default (the nodes without a label g8s.host/pool) has GPU type nvidia-tesla-v100; of pool train, these have it: v1",
			"Give the pod the node selector g8s.host/pool: train",
		},
		"who makes the GPUs for their type": {
			func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{names.LabelAccelerator: "nvidia"} },
			[]*fixture.NodeBuilder{node("n1", "default", 8), node("n2", "default", 0)}, reason.NoSuchType, "has GPU type nvidia",
			"leave GPU type nvidia out of the node selector: a pod that asks for GPUs goes to nodes which have some, of pool default (the nodes without a label g8s.host/pool): n1",
		},
		"a pool that is not there": {
			func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{names.LabelPool: "trian"} }, many, reason.NoSuchPool,
			"no node is in pool trian", "did you mean pool train? Give the pod the node selector g8s.host/pool: train",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, unnamed := range []bool{false, true} {
				report := DiagnosePod(rawPod(func(pod *corev1.Pod) {
					if unnamed {
						pod.Spec.SchedulerName = corev1.DefaultSchedulerName
					}
					tc.change(pod)
				}, tc.nodes...))
				found := report.Findings
				if unnamed {
					if found[0].Cause != reason.OtherScheduler || report.Cause != reason.OtherScheduler || !strings.Contains(found[0].Advice[0], "schedulerName: gpu-scheduler") {
						t.Errorf("of a pod that names no scheduler it says first %+v", found[0])
					}
					found = found[1:]
				}
				if len(found) == 0 || found[0].Cause != tc.cause || !strings.Contains(found[0].Text, tc.says) ||
					!strings.Contains(strings.Join(found[0].Advice, "\n"), tc.advice) {
					t.Errorf("unnamed %v: it says %+v, want %s, %q and %q", unnamed, found, tc.cause, tc.says, tc.advice)
				}
				if strings.Contains(found[0].Text, "t005") {
					t.Errorf("it names more nodes than a sentence bears: %s", found[0].Text)
				}
			}
		})
	}
}

func TestAPodThatNamesNoSchedulerIsToldWhereThereIsRoom(t *testing.T) {
	unnamed := func(pod *corev1.Pod) { pod.Spec.SchedulerName = corev1.DefaultSchedulerName }
	report := DiagnosePod(rawPod(unnamed, node("full", "default", 1), node("free", "default", 8)))
	if len(report.Findings) == 0 || !strings.HasSuffix(report.Findings[0].Advice[0], "; node free of pool default has room for it") {
		t.Errorf("it says %+v", report.Findings)
	}
	if slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.Cause == reason.RoomNow || f.Cause == reason.WaitingForTurn }) {
		t.Errorf("it says to wait for a scheduler that does not look: %+v", report.Findings)
	}
	facts := rawPod(unnamed, node("free", "default", 8))
	facts.Job.Status, facts.Job.Ready, facts.Job.Desired = "Running", 1, 1
	if running := DiagnosePod(facts); running.Cause == reason.OtherScheduler {
		t.Errorf("of a pod that runs it says %+v", running.Findings)
	}
}

func TestAPodOfJobsIsMovedByItsJob(t *testing.T) {
	facts := factsOf(refused(fixture.Pod("p").GPUs(1).Pool("p").Select("disk", "ssd"), busy), node("n1", "p", 8), node("n2", "q", 8).Label("disk", "ssd"))
	report := Diagnose(facts)
	if advice := report.Findings[0].Advice; !strings.Contains(strings.Join(advice, "\n"), "gpuctl move train -n team --pool q") {
		t.Errorf("it advises %q", advice)
	}
}
