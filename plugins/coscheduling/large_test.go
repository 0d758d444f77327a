package coscheduling

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/test/fixture"
)

// smallJobs fills nodes in racks of some with 8 pods of one GPU and lower priority each.
func smallJobs(t testing.TB, nodes, rack int) *lab {
	l := newLab(t, nodes)
	l.answers()
	for node := range nodes {
		l.infos[node].Node().Labels["g8s.host/rack"] = fmt.Sprint("r", node/rack)
		pods := make([]*corev1.Pod, 8)
		for i := range pods {
			pod := fixture.Pod(fmt.Sprintf("low-%d-%d", node, i)).GPUs(1).Obj()
			pod.Namespace, pod.UID = "ns", types.UID(pod.Name)
			pod.Spec.NodeName, pod.Spec.Priority = l.infos[node].Node().Name, ptr.To(int32(-1))
			pod.Status.StartTime = ptr.To(metav1.NewTime(l.now().Add(-time.Duration(1+node+i) * time.Minute)))
			l.must(l.pods.Add(pod))
			pods[i] = pod
		}
		l.infos[node] = nodeInfo(l.infos[node].Node(), pods...)
	}
	return l
}

// TestAGangOfOneRackEvictsInALargePool: a gang of high priority that is to lie in one rack has pods of low priority evicted in a pool of a
// thousand nodes as in one of a hundred. It must not wait for ever since the search for who leaves is cut short each time at the same point.
func TestAGangOfOneRackEvictsInALargePool(t *testing.T) {
	for _, nodes := range []int{100, 400, 1000, 2000} {
		for _, how := range []string{"required=rack", "preferred=rack"} {
			l := smallJobs(t, nodes, 40)
			l.group("g", map[string]any{"minMember": int64(16)}, laidOut(how))
			var first *corev1.Pod
			for i := range 16 {
				pod := l.member(fmt.Sprint("m", i))
				if first == nil {
					first = pod
				}
			}
			start := time.Now()
			_, evicted, _ := l.refuse(first)
			took := time.Since(start)
			again := l.places.gangs[gangOf(first, l.groups.get(types.NamespacedName{Namespace: "ns", Name: "g"}))].abstains
			if len(evicted) != 128 {
				t.Errorf("%s, %d nodes: %d pods are evicted, want 128; it is looked again in %s, with the same result (%s)", how, nodes, len(evicted), time.Until(again).Round(time.Second), took.Round(time.Millisecond))
			} else {
				t.Logf("%s, %d nodes: evicted in %s", how, nodes, took.Round(time.Millisecond))
			}
		}
	}
}
