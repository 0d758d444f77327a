package cli

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// limitGPUs makes the LimitRange of document 001, which gives each container a GPU that does not name them.
func (s *session) limitGPUs() {
	s.Helper()
	list := func(gpus, cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{names.ResourceGPU: resource.MustParse(gpus), "cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	}
	_, err := client.CoreV1().LimitRanges(s.namespace).Create(s.Context(), &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu-limits"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
			{Type: corev1.LimitTypeContainer, Default: list("1", "2", "8Gi"), Max: list("2", "8", "32Gi")},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

// podFrom makes a pod of a template, as a controller would, and returns what the API server made of it.
func (s *session) podFrom(name string, template *corev1.PodTemplateSpec) *corev1.Pod {
	s.Helper()
	meta := metav1.ObjectMeta{Name: name, Labels: template.Labels, Annotations: template.Annotations}
	spec := *template.Spec.DeepCopy()
	spec.PriorityClassName = "" // this API server has none of ours
	pod, err := client.CoreV1().Pods(s.namespace).Create(s.Context(), &corev1.Pod{ObjectMeta: meta, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return pod
}

// TestAJobWithoutGPUsTakesNoneWhereALimitRangeGivesThem, and create and validate say so.
func TestAJobWithoutGPUsTakesNoneWhereALimitRangeGivesThem(t *testing.T) {
	const prep = "kind: training\njob: {name: prep}\nenvironment: {image: busybox, command: [\"true\"]}\nresources: {cpu: 1, memory: 1Gi}\n"
	s := newSession(t)
	before := s.gpuctl(prep, "validate", "-f", "-")
	s.limitGPUs()
	const says = "job prep asks for no GPUs: limit range gpu-limits gives containers that do not ask for nvidia.com/gpu 1 of it"
	if strings.Contains(before.stderr, "limit range") {
		t.Errorf("validate warns of a limit range that is not there: %s", before.stderr)
	}
	s.expect(2, says, prep, "validate", "-f", "-") // this API server has no priority classes, and so would refuse its pods
	s.expect(0, says, prep, "create", "-f", "-")
	pod := s.podFrom("prep-0", &s.job("prep").Spec.Template)
	if gpus := pod.Spec.Containers[0].Resources.Requests[names.ResourceGPU]; !gpus.IsZero() {
		t.Errorf("the pod of a job without GPUs asks for %s", gpus.String())
	}
	if len(pod.Spec.Tolerations) > 2 { // those of every pod
		t.Errorf("the pod tolerates more than others do: %v", pod.Spec.Tolerations)
	}
}

// TestAJobShowsTheGPUsThatALimitRangeGaveIt: it was there before the LimitRange, so it does not ask for 0.
func TestAJobShowsTheGPUsThatALimitRangeGaveIt(t *testing.T) {
	const prep = "kind: training\njob: {name: prep}\nenvironment: {image: busybox, command: [\"true\"]}\nresources: {cpu: 1, memory: 1Gi}\n"
	s := newSession(t)
	s.expect(0, "", prep, "create", "-f", "-")
	if got := s.expect(0, "", "", "get", "job", "prep", "-o", "json"); !strings.Contains(got.stdout, `"gpus": 0`) {
		t.Errorf("before it has a pod, the job does not show 0 GPUs: %s", got.stdout)
	}
	s.limitGPUs()
	s.podFrom("prep-0", &s.job("prep").Spec.Template)
	if got := s.expect(0, "", "", "get", "job", "prep", "-o", "json"); !strings.Contains(got.stdout, `"gpus": 1`) {
		t.Errorf("the job does not show the GPU that its pod was given: %s", got.stdout)
	}
}
