package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestLimitsOfOthers has a quota of gpuctl, one of kubectl that bounds GPUs under a name which Kubernetes does not count,
// and a LimitRange.
func TestLimitsOfOthers(t *testing.T) {
	amount := resource.MustParse
	list := func(name corev1.ResourceName, text string) corev1.ResourceList {
		return corev1.ResourceList{name: amount(text)}
	}
	quotas := []corev1.ResourceQuota{
		{ObjectMeta: metav1.ObjectMeta{Name: "gpuctl-quota", Labels: map[string]string{names.LabelQuota: "q"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: corev1.ResourceQuotaSpec{
			Hard:   corev1.ResourceList{"nvidia.com/gpu": amount("4"), "requests.nvidia.com/gpu": amount("2")},
			Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeNotTerminating},
		}, Status: corev1.ResourceQuotaStatus{Used: list("requests.nvidia.com/gpu", "1")}},
	}
	ranges := []corev1.LimitRange{{ObjectMeta: metav1.ObjectMeta{Name: "sizes"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
		{Type: corev1.LimitTypeContainer, Max: list("nvidia.com/gpu", "2"), Default: list("cpu", "2")},
		{Type: corev1.LimitTypePod, Min: list("cpu", "1")},
	}}}}
	want := Limits{
		OtherQuotas: []OtherQuota{{Name: "team", Scopes: []string{"NotTerminating"}, Resources: []OtherQuotaBound{
			{QuotaResource: QuotaResource{Resource: "nvidia.com/gpu", Hard: amount("4")},
				Note: "counts nothing: bound requests.nvidia.com/gpu"},
			{QuotaResource: QuotaResource{Resource: "requests.nvidia.com/gpu", Used: amount("1"), Hard: amount("2")}},
		}}},
		LimitRanges: []LimitRange{
			{Name: "sizes", Type: "Container", Resource: "cpu", Default: ptr.To(amount("2"))},
			{Name: "sizes", Type: "Container", Resource: "nvidia.com/gpu", Max: ptr.To(amount("2"))},
			{Name: "sizes", Type: "Pod", Resource: "cpu", Min: ptr.To(amount("1"))},
		},
	}
	if diff := cmp.Diff(want, buildLimits(quotas, ranges)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
