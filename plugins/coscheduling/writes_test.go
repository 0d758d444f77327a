package coscheduling

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
)

// TestAnAPIServerThatTakesItsTime: a pod alone that is guaranteed GPUs has one leave that borrows them, and before the API server has
// answered something happens.
func TestAnAPIServerThatTakesItsTime(t *testing.T) {
	tests := map[string]struct {
		meanwhile func(l *lab, pod *corev1.Pod)
		evicted   []string
	}{
		"nothing": {meanwhile: func(*lab, *corev1.Pod) {}, evicted: []string{"old"}},
		"another one that loses less could leave, too": {meanwhile: func(l *lab, pod *corev1.Pod) {
			l.infos[1] = nodeInfo(l.infos[1].Node())
			l.running(1, "new", 1, inNamespace("theirs"))
			l.share(quotaOf("ns", 8, 0))
			l.PostFilter(l.Context(), framework.NewCycleState(), pod, nil)
		}, evicted: []string{"old"}},
		"it gets another place": {meanwhile: func(l *lab, pod *corev1.Pod) {
			bound := pod.DeepCopy()
			bound.Spec.NodeName = "n1"
			l.must(l.pods.Update(bound))
		}},
		"it is deleted": {meanwhile: func(l *lab, pod *corev1.Pod) { l.must(l.pods.Delete(pod)) }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2)
			now := time.Now()
			l.now = func() time.Time { return now }
			answer := make(chan struct{})
			slowly := func(clienttesting.Action) (bool, runtime.Object, error) { <-answer; return true, &corev1.Pod{}, nil }
			l.client.PrependReactor("patch", "pods", slowly)
			l.client.PrependReactor("delete", "pods", slowly)
			l.running(0, "old", 60, inNamespace("theirs"))
			l.running(1, "service", 60, inNamespace("theirs"), ofPriority(2_000_000_000))
			pod := l.alone("ns", "mine")
			l.share(quotaOf("ns", 8, 0))
			if result, _ := l.PostFilter(l.Context(), framework.NewCycleState(), pod, nil); result == nil || result.NominatedNodeName != "n0" {
				t.Fatalf("it is nominated by %+v, want n0", result)
			}
			now = now.Add(2 * phase.SettleTime)
			tc.meanwhile(l, pod)
			close(answer)
			for !l.Settled() {
				time.Sleep(time.Millisecond)
			}
			var evicted []string
			for _, action := range l.client.Actions() {
				if action, ok := action.(clienttesting.DeleteAction); ok && len(action.GetDeleteOptions().DryRun) == 0 {
					evicted = append(evicted, action.GetName())
				}
			}
			if diff := cmp.Diff(tc.evicted, evicted); diff != "" {
				t.Errorf("evicted (-want +got):\n%s", diff)
			}
		})
	}
}
