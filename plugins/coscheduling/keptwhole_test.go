package coscheduling

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestANodeThatIsKeptWholeIsNoRoom: the first in line, which GPUReserve keeps from the last idle nodes, waits for room on the others as it would if
// there were no idle node: it is promised a start there. It is not to be taken for a pod that something else than room keeps out, which is promised
// nothing for ten minutes, then for twenty, and so on up to a day, while all cards that come free go to others.
func TestANodeThatIsKeptWholeIsNoRoom(t *testing.T) {
	for _, kept := range []bool{false, true} {
		l, _ := keeping(t, 2)
		if kept {
			l.infos = append(l.infos, nodeInfo(fixture.Node("n2").GPUs(8, "T4").Obj()))
		}
		pod := l.member("first", func(pod *corev1.Pod) { pod.Labels = nil }, func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Limits[names.ResourceGPU] = resource.MustParse("2")
		})
		pod.CreationTimestamp = metav1.NewTime(l.now().Add(-time.Minute))
		refused := framework.NewDefaultNodeToStatus()
		for _, info := range l.infos {
			status := fwk.NewStatus(fwk.Unschedulable, "full").WithPlugin("GPUFilter")
			if info.Node().Name == "n2" {
				status = fwk.NewStatus(fwk.Unschedulable, string(reason.KeptForWhole.Text)).WithPlugin("GPUReserve")
			}
			refused.Set(info.Node().Name, status)
		}
		l.PostFilter(t.Context(), framework.NewCycleState(), pod, refused)
		if told := l.promisedTo(pod); told != "1 in 10 min" {
			t.Errorf("with an idle node that is kept whole: %v: promised %q, want 1 in 10 min", kept, told)
		}
	}
}
