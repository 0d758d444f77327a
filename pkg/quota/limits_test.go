package quota

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func quantities(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func rangeOf(name string, items ...corev1.LimitRangeItem) corev1.LimitRange {
	return corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.LimitRangeSpec{Limits: items}}
}

func TestGPUDefaults(t *testing.T) {
	const container = corev1.LimitTypeContainer
	tests := map[string]struct {
		ranges []corev1.LimitRange
		want   string
	}{
		"none":      {},
		"CPU alone": {ranges: []corev1.LimitRange{rangeOf("a", corev1.LimitRangeItem{Type: container, Default: quantities("cpu", "2")})}},
		"0 GPUs":    {ranges: []corev1.LimitRange{rangeOf("a", corev1.LimitRangeItem{Type: container, Default: quantities(names.ResourceGPU, "0")})}},
		"the most of a pod": {
			ranges: []corev1.LimitRange{rangeOf("a", corev1.LimitRangeItem{Type: corev1.LimitTypePod, Max: quantities(names.ResourceGPU, "1")})},
		},
		"GPUs, as document 001 has them": {
			ranges: []corev1.LimitRange{rangeOf("gpu-limits", corev1.LimitRangeItem{Type: container,
				Default: quantities(names.ResourceGPU, "1", "cpu", "2"), DefaultRequest: quantities(names.ResourceGPU, "1", "cpu", "2")})},
			want: "gpu-limits gives 1 of nvidia.com/gpu",
		},
		"slices, and GPUs that all must have": {
			ranges: []corev1.LimitRange{
				rangeOf("b", corev1.LimitRangeItem{Type: container, Default: quantities(names.ResourceGPU, "2", "nvidia.com/mig-1g.10gb", "1")}),
				rangeOf("c", corev1.LimitRangeItem{Type: container, Min: quantities(names.ResourceGPU, "1")}),
			},
			want: "b forces 2 of nvidia.com/gpu, b gives 1 of nvidia.com/mig-1g.10gb",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, d := range GPUDefaults(tc.ranges) {
				verb := map[bool]string{true: "forces", false: "gives"}[d.Forced]
				got = append(got, d.Range+" "+verb+" "+d.Amount.String()+" of "+string(d.Resource))
			}
			if text := strings.Join(got, ", "); text != tc.want {
				t.Errorf("got %q, want %q", text, tc.want)
			}
		})
	}
}

// TestAdmitted: what a container says stands, and a limit that it says is what it asks, before any default.
func TestAdmitted(t *testing.T) {
	ranges := []corev1.LimitRange{
		rangeOf("a", corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Default: quantities("cpu", "2", names.ResourceGPU, "1"),
			DefaultRequest: quantities("cpu", "1", names.ResourceGPU, "1")}),
		rangeOf("b", corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Default: quantities("cpu", "9", "memory", "8Gi")}),
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "first"}},
		Containers:     []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: quantities("cpu", "4", names.ResourceGPU, "0")}}},
	}}
	got := WithLimitRangeDefaults(pod, ranges)
	first, main := got.Spec.InitContainers[0].Resources, got.Spec.Containers[0].Resources
	for _, tc := range []struct {
		what string
		list corev1.ResourceList
		name corev1.ResourceName
		want string
	}{
		{"limit of first", first.Limits, "cpu", "2"}, {"request of first", first.Requests, "cpu", "1"},
		{"limit of first", first.Limits, names.ResourceGPU, "1"}, {"request of first", first.Requests, "memory", "8Gi"},
		{"limit of main", main.Limits, "cpu", "4"}, {"request of main", main.Requests, "cpu", "4"},
		{"limit of main", main.Limits, names.ResourceGPU, "0"}, {"request of main", main.Requests, names.ResourceGPU, "0"},
	} {
		if amount := tc.list[tc.name]; amount.String() != tc.want {
			t.Errorf("%s for %s is %s, want %s", tc.what, tc.name, amount.String(), tc.want)
		}
	}
	if pod.Spec.InitContainers[0].Resources.Limits != nil {
		t.Error("the pod that was asked about was changed")
	}
}
