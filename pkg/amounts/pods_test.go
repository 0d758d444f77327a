package amounts_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"g8s.host/gpu-scheduler/pkg/amounts"
	"g8s.host/gpu-scheduler/test/fixture"
)

func cpu(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}

// TestWhatAPodTakes while it is resized in place, as kube-scheduler counts it: whoever counts less sees room that is not there.
func TestWhatAPodTakes(t *testing.T) {
	status := func(allocated, actual string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "main", AllocatedResources: cpu(allocated), Resources: &corev1.ResourceRequirements{Requests: cpu(actual), Limits: cpu(actual)},
			}}
		}
	}
	for name, tc := range map[string]struct {
		asks, node string
		change     func(*corev1.Pod)
		want       string
	}{
		"it waits":                                 {asks: "4", change: func(*corev1.Pod) {}, want: "4"},
		"it runs as asked":                         {asks: "4", node: "a", change: status("4", "4"), want: "4"},
		"it gets less, and has the most still":     {asks: "2", node: "a", change: status("2", "8"), want: "8"},
		"it is to have more, which is not granted": {asks: "8", node: "a", change: status("2", "2"), want: "8"},
		"the node can never grant it": {asks: "8", node: "a", change: func(pod *corev1.Pod) {
			status("2", "2")(pod)
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible}}
		}, want: "2"},
		"the pod asks as a whole": {asks: "1", change: func(pod *corev1.Pod) {
			pod.Spec.Resources = &corev1.ResourceRequirements{Requests: cpu("6"), Limits: cpu("6")}
		}, want: "6"},
		"the pod as a whole gets less, and has the most still": {asks: "1", node: "a", change: func(pod *corev1.Pod) {
			status("1", "1")(pod)
			pod.Spec.Resources = &corev1.ResourceRequirements{Requests: cpu("3"), Limits: cpu("3")}
			pod.Status.AllocatedResources = cpu("3")
			pod.Status.Resources = &corev1.ResourceRequirements{Requests: cpu("6"), Limits: cpu("6")}
		}, want: "6"},
		"its runtime takes some": {asks: "1", change: func(pod *corev1.Pod) { pod.Spec.Overhead = cpu("500m") }, want: "1500m"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := fixture.Pod("p").Obj()
			pod.Spec.Containers[0].Name, pod.Spec.NodeName = "main", tc.node
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: cpu(tc.asks), Limits: cpu(tc.asks)}
			tc.change(pod)
			want := resource.MustParse(tc.want)
			if got := amounts.Requests(pod)[corev1.ResourceCPU]; got.Cmp(want) != 0 {
				t.Errorf("%s CPUs, want %s", got.String(), tc.want)
			}
		})
	}
}

func TestWhatAPodIsLimitedTo(t *testing.T) {
	pod := fixture.Pod("p").Obj()
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: cpu("1"), Limits: cpu("2")}
	pod.Spec.Overhead = cpu("500m")
	want := resource.MustParse("2500m")
	if got := amounts.Limits(pod)[corev1.ResourceCPU]; got.Cmp(want) != 0 {
		t.Errorf("%s CPUs, want %s", got.String(), want.String())
	}
}
