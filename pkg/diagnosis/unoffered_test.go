package diagnosis

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

// askingFor has the container of a pod ask for a resource, too.
func askingFor(pod *corev1.Pod, name corev1.ResourceName, amount string) {
	for _, list := range []corev1.ResourceList{pod.Spec.Containers[0].Resources.Requests, pod.Spec.Containers[0].Resources.Limits} {
		list[name] = resource.MustParse(amount)
	}
}

func TestAResourceThatNoNodeOffers(t *testing.T) {
	const verdict = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu-memory."
	tests := map[string]struct {
		change      func(*Facts)
		says, steps string
	}{
		"the memory of its GPUs, of each": {
			func(f *Facts) { askingFor(&f.Pods[0], names.ResourceGPUMemory, "128Gi") },
			"a pod asks for 128Gi of nvidia.com/gpu-memory, and no node of the cluster offers that resource",
			"its annotation g8s.host/gpu-memory-min: 32Gi asks for GPUs",
		},
		"more than there can be": {
			func(f *Facts) { askingFor(&f.Pods[0], names.ResourceGPUMemory, "9223372036854775807") },
			"no node of the cluster offers that resource", "g8s.host/gpu-memory-min: 2Ei",
		},
		"and a label that says the same": {
			func(f *Facts) {
				askingFor(&f.Pods[0], names.ResourceGPUMemory, "128Gi")
				f.Pods[0].Spec.NodeSelector[names.LabelMemory] = "32Gi"
			},
			"none has gpu-memory=32Gi", "by the pod's annotation g8s.host/gpu-memory-min, such as 40Gi, and not by a label",
		},
		"another one": {
			func(f *Facts) { askingFor(&f.Pods[0], "example.com/fpga", "1") },
			"a pod asks for 1 of example.com/fpga, and no node of the cluster offers that resource",
			"take example.com/fpga out of the requests and limits of the pod, or have the administrators install what offers it",
		},
		"by the verdict alone": {
			func(f *Facts) { f.Cluster.Unread = []snapshot.Part{snapshot.PartNodes} },
			"the pod asks for nvidia.com/gpu-memory, a resource that device plugins do not offer", "g8s.host/gpu-memory-min, such as 40Gi",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			facts := factsOf(refused(fixture.Pod("p").GPUs(4).Pool("p"), verdict), node("n1", "p", 8))
			tc.change(&facts)
			job := Diagnose(facts)
			facts.Job.Kind = KindPod
			for kind, report := range map[string]Report{"of a job": job, "of none": DiagnosePod(facts)} {
				var says, steps strings.Builder
				for _, finding := range report.Findings {
					says.WriteString(finding.Text + "\n")
					steps.WriteString(strings.Join(finding.Advice, "\n") + "\n")
				}
				if !strings.Contains(says.String(), tc.says) || !strings.Contains(steps.String(), tc.steps) {
					t.Errorf("a pod %s: it says\n%sand advises\n%s, want %q and %q", kind, &says, &steps, tc.says, tc.steps)
				}
			}
		})
	}
}

func TestAResourceOfAnotherPoolIsOffered(t *testing.T) {
	facts := factsOf(refused(fixture.Pod("p").GPUs(4).Pool("p"), busy), node("n1", "p", 8), node("n2", "q", 8))
	askingFor(&facts.Pods[0], names.ResourceGPUMemory, "128Gi")
	facts.Cluster.Nodes[1].Status.Allocatable[names.ResourceGPUMemory] = resource.MustParse("256Gi")
	report := Diagnose(facts)
	if report.Cause != reason.ResourceShort || report.Findings[0].Never || !strings.Contains(strings.Join(report.Findings[0].Advice, "\n"), "--pool q") {
		t.Errorf("it says %+v, want that pool q has it", report.Findings)
	}
}
