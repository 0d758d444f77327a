package cycle

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// TestWhatIsHeldIsWhatANodeCounts: also of a pod whose resources are being made smaller in place, and of several.
func TestWhatIsHeldIsWhatANodeCounts(t *testing.T) {
	cores := func(amount string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount), corev1.ResourceMemory: resource.MustParse("1Gi")}
	}
	whole := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: cores("4")}}}}}
	resized := whole.DeepCopy()
	resized.Name = "resized"
	resized.Spec.Containers[0].Resources.Requests = cores("1")
	resized.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", AllocatedResources: cores("3"), Resources: &corev1.ResourceRequirements{Requests: cores("3")}}}
	info := framework.NewNodeInfo(whole, resized)
	info.SetNode(&corev1.Node{})
	for name, want := range map[corev1.ResourceName]int64{corev1.ResourceCPU: 7_000, corev1.ResourceMemory: 2 << 30, corev1.ResourcePods: 2, "example.com/x": 0} {
		_, taken := AmountOf(info, name)
		if got := HeldBy(info.GetPods(), name); got != want || taken != want {
			t.Errorf("%s: pods hold %d, and the node counts %d, want %d", name, got, taken, want)
		}
	}
}
