package inventory

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestWhoHasHowMuchOfAQuota counts by the pool of the node, and gangs as a whole.
func TestWhoHasHowMuchOfAQuota(t *testing.T) {
	began := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	quota := func(name, gpuType string, least int64) names.GPUQuota {
		return names.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: names.GPUQuotaSpec{Namespaces: []string{"a"}, Pool: "h100", GPUType: gpuType, Min: least, Max: ptr.To[int64](32)}}
	}
	pod := func(name, node, group string, minute int) corev1.Pod {
		out := fixture.Pod(name).GPUs(8).Pool("h100").Obj()
		out.Namespace, out.UID, out.Spec.NodeName = "a", types.UID(name), node
		out.CreationTimestamp = metav1.NewTime(began.Add(time.Duration(minute) * time.Minute))
		if group != "" {
			out.Labels[names.LabelPodGroup] = group
			out.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: group, UID: types.UID(group), Controller: ptr.To(true)}}
		}
		return *out
	}
	s := &snapshot.Snapshot{
		GPUQuotas: []names.GPUQuota{quota("whole", "", 16), quota("typed", "SXM", 0)},
		Nodes:     []corev1.Node{*fixture.Node("n").Pool("h100").GPUs(8, "SXM").Obj(), *fixture.Node("m").Pool("other").GPUs(8, "SXM").Obj()},
		Pods:      []corev1.Pod{pod("alone", "n", "", 0), pod("g0", "n", "g", 1), pod("g1", "n", "g", 1), pod("elsewhere", "m", "", 2)},
	}
	got := BuildGPUQuotas(s)
	for i := range got {
		got[i].Conditions = nil
	}
	none := ptr.To[int64](0)
	want := []GPUQuota{
		{Name: "typed", Pool: "h100", GPUType: "SXM", Namespaces: []string{"a"}, Max: ptr.To[int64](32), Used: ptr.To[int64](24), Borrowed: ptr.To[int64](16), Free: none, Lent: none, Waiting: &QuotaWaiting{}},
		{Name: "whole", Pool: "h100", Namespaces: []string{"a"}, Min: 16, Max: ptr.To[int64](32), Used: ptr.To[int64](24), Borrowed: ptr.To[int64](16), Free: none, Lent: none, Waiting: &QuotaWaiting{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.MarkUnread(snapshot.PartAllPods)
	s.GPUQuotas[0].Generation, s.GPUQuotas[0].Status = 2, names.GPUQuotaStatus{ObservedGeneration: 2, Used: 9}
	for _, q := range BuildGPUQuotas(s) {
		if known := q.Used != nil; known != (q.Name == "whole") || known && *q.Used != 9 {
			t.Errorf("for who may not see all pods, of what gpu-controller counted: %+v", q)
		}
	}
}

// TestJobsThatBorrowAreNamed of those who borrow from a quota, the largest first.
func TestJobsThatBorrowAreNamed(t *testing.T) {
	pod := func(namespace, job string, gpus int64) corev1.Pod {
		out := fixture.Pod(namespace+"-"+job).GPUs(gpus).Label(names.LabelJob, job).Obj()
		out.Namespace, out.UID, out.Spec.NodeName = namespace, types.UID(out.Name), "n"
		return *out
	}
	s := &snapshot.Snapshot{
		GPUQuotas: []names.GPUQuota{{ObjectMeta: metav1.ObjectMeta{Name: "lender"}, Spec: names.GPUQuotaSpec{Namespaces: []string{"b"}, Pool: "default", Min: 8}}},
		Nodes:     []corev1.Node{*fixture.Node("n").GPUs(8, "SXM").Obj()},
		Pods:      []corev1.Pod{pod("a", "small", 1), pod("a", "large", 3), pod("c", "other", 4)},
	}
	want := []QuotaBorrower{{Namespace: "a", GPUs: 4, Jobs: []string{"large", "small"}}, {Namespace: "c", GPUs: 4, Jobs: []string{"other"}}}
	if diff := cmp.Diff(want, BuildGPUQuotas(s)[0].Borrowers); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
