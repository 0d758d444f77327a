package diagnosis

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/test/fixture"
)

// rawPod are the facts about a pod that gpuctl has not made, and that waits.
func rawPod(change func(*corev1.Pod), nodes ...*fixture.NodeBuilder) Facts {
	pod := refused(fixture.Pod("own").GPUs(2), "0/1 nodes are available")
	pod.Labels = nil
	change(&pod)
	facts := factsOf(pod, nodes...)
	facts.Job = inventory.PodDetail(&pod, KindPod)
	return facts
}

func TestAPodThatGpuctlHasNotMade(t *testing.T) {
	named := func(name, pool string) *fixture.NodeBuilder {
		return node(name, pool, 8).Label(corev1.LabelHostname, name)
	}
	byAffinity := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}},
		}}},
	}}}
	const lacks = "node n1 is in pool train, and the pod is for pool default: give it the node selector g8s.host/pool: train as well"
	tests := map[string]struct {
		change func(*corev1.Pod)
		first  string
	}{
		"it names a node of a pool by its selector": {
			func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "n1"} }, lacks,
		},
		"and by its affinity": {func(pod *corev1.Pod) { pod.Spec.Affinity = byAffinity }, lacks},
		"and the pool as well": {func(pod *corev1.Pod) {
			pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "n1", names.LabelPool: "train"}
		}, ""},
		"it names a node that is not there": {
			func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "n7"} }, "",
		},
		"it names none": {func(*corev1.Pod) {}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			report := DiagnosePod(rawPod(tc.change, named("n1", "train"), named("n2", "default")))
			if report.Kind != KindPod || report.Job != "own" || report.Status != inventory.StatusPending || len(report.Findings) == 0 {
				t.Fatalf("the report is %+v", report)
			}
			advice := report.Findings[0].Advice
			if has := len(advice) > 0 && advice[0] == tc.first; tc.first != "" && !has {
				t.Errorf("the advice is %q, want first %q", advice, tc.first)
			}
			for _, finding := range report.Findings {
				if slices.ContainsFunc(finding.Advice, func(line string) bool {
					return tc.first == "" && strings.Contains(line, "node selector g8s.host/pool") || strings.Contains(line, "resources.")
				}) {
					t.Errorf("it advises %q", finding.Advice)
				}
			}
		})
	}
}
