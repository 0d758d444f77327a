package coscheduling

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/test/fixture"
)

// crowded has nodes of eight pods with a GPU each of another namespace, which borrow them. Those on one node have just begun.
func crowded(tb testing.TB, nodes, cheap int) *lab {
	tb.Helper()
	l := newLab(tb, nodes)
	l.answers()
	single := fixture.Pod("single").GPUs(1).Obj().Spec
	for node := range nodes {
		var all []*corev1.Pod
		for i := range 8 {
			minutes := 60
			if node == cheap {
				minutes = 1
			}
			pod := l.member(fmt.Sprintf("on-%d-%d", node, i), inNamespace("theirs"), ofPriority(5), func(pod *corev1.Pod) {
				pod.Labels, pod.Spec.Containers, pod.Spec.NodeName = nil, single.Containers, l.infos[node].Node().Name
			})
			pod.Status.StartTime = ptr.To(metav1.NewTime(l.now().Add(-time.Duration(minutes) * time.Minute)))
			all = append(all, pod)
		}
		l.infos[node] = nodeInfo(l.infos[node].Node(), all...)
	}
	l.share(quotaOf("ns", 1<<20, 0))
	l.quotas.UseManualUpdates()
	return l
}

// TestWhoLeavesOfVeryMany: a guarantee holds where thousands of small pods borrow, too, and the cheapest of them leave. The search was cut short,
// and no pod left, ever. The first attempts weigh the pods of all nodes.
func TestWhoLeavesOfVeryMany(t *testing.T) {
	for _, members := range []int{1, 3} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			const nodes, cheap = 1500, 1234
			l := crowded(t, nodes, cheap)
			l.group("g", map[string]any{"minMember": int64(members)})
			var pod *corev1.Pod
			for i := range members {
				pod = l.member(fmt.Sprint("m", i))
			}
			now := l.now()
			l.now = func() time.Time { return now }
			var node string
			var evicted []string
			for attempts := 0; attempts < 3 && len(evicted) == 0; attempts++ {
				if members > 1 {
					l.aim(pod)
				}
				node, evicted = l.postFilter(framework.NewCycleState(), pod)
				now = now.Add(time.Minute)
			}
			if node == "" || len(evicted) != 8*members || !slices.Contains(evicted, fmt.Sprintf("on-%d-0", cheap)) {
				t.Errorf("for a place on %q leave %d, want %d, and those that have just begun", node, len(evicted), 8*members)
			}
		})
	}
}
