package submit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// TestAQuotaOfGPUsBoundsTheirSlices: those that nodes offer, also of a node that was there when it was written last.
func TestAQuotaOfGPUsBoundsTheirSlices(t *testing.T) {
	one := resource.MustParse("1")
	nodes := []corev1.Node{
		{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"nvidia.com/mig-7g.80gb": one, "nvidia.com/gpu": one}}},
		{Status: corev1.NodeStatus{Capacity: corev1.ResourceList{"nvidia.com/mig-3g.40gb": one}}},
	}
	before := []corev1.ResourceQuota{{Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.nvidia.com/mig-1g.10gb": {}, "pods": one}}}}
	quota := &workload.Quota{Name: "q", Namespaces: []workload.NamespaceQuota{
		{Namespace: "none", GPU: ptr.To[int64](0)},
		{Namespace: "some", GPU: ptr.To[int64](4), MIG: []workload.MIGSlices{{Profile: "3g.40gb", Count: 2}}},
		{Namespace: "free", Pods: ptr.To[int64](4)},
	}}
	for i := range quota.Namespaces {
		quota.Namespaces[i].DenyOtherProfiles(knownProfiles(nodes, before))
	}
	got := map[string]map[string]int64{}
	for _, object := range render.Quota(quota) {
		if bounds, ok := object.(*corev1.ResourceQuota); ok {
			of := map[string]int64{}
			for name, amount := range bounds.Spec.Hard {
				of[string(name)] = amount.Value()
			}
			got[bounds.Namespace] = of
		}
	}
	want := map[string]map[string]int64{
		"none": {"requests.nvidia.com/gpu": 0, "requests.nvidia.com/mig-7g.80gb": 0, "requests.nvidia.com/mig-3g.40gb": 0, "requests.nvidia.com/mig-1g.10gb": 0},
		"some": {"requests.nvidia.com/gpu": 4, "requests.nvidia.com/mig-7g.80gb": 0, "requests.nvidia.com/mig-3g.40gb": 2, "requests.nvidia.com/mig-1g.10gb": 0},
		"free": {"pods": 4},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
