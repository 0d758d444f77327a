package plugins_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reservation"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/plugins/gpufilter"
	"g8s.host/gpu-scheduler/test/upstream"
)

// turnedAway has the real queue of a scheduler hold pods that GPUFilter found no node for.
func turnedAway(t testing.TB, c *cluster, pods ...*corev1.Pod) queue.SchedulingQueue {
	t.Helper()
	waiting := c.scheduler.SchedulingQueue
	for _, pod := range pods {
		upstream.Add(waiting, pod)
		upstream.TurnAway(t, waiting, 1, gpufilter.Name)
	}
	if got := len(waiting.UnschedulablePods()); got != len(pods) {
		t.Fatalf("%d of %d pods wait", got, len(pods))
	}
	return waiting
}

// anyPod goes first.
func anyPod(*corev1.Pod) bool { return true }

// rack are so many nodes of a pool and a type.
func rack(count int, pool, gpuType string) (nodes []*corev1.Node) {
	for i := range count {
		node := gpuNode(fmt.Sprint(pool, "-", i), "pcie")
		node.Labels[names.LabelPool], node.Labels[names.LabelGPUType] = pool, gpuType
		nodes = append(nodes, node)
	}
	return nodes
}

// TestWhoIsTriedWhenAWindowEnds: those whom the nodes suit are tried again, and the others wait on, few nodes or many.
func TestWhoIsTriedWhenAWindowEnds(t *testing.T) {
	now := time.Now()
	in := func(pool string, pod *corev1.Pod) *corev1.Pod {
		pod.Labels = map[string]string{names.LabelPool: pool}
		return pod
	}
	theirs := pod("theirs", "1", "8").Namespace("owner").Obj()
	pods := []*corev1.Pod{
		in("big", pod("same-pool", "1", "8").Obj()),
		in("big", pod("same-type", "1", "8").Annotation(names.AnnotationGPUTypes, "H100").Obj()),
		in("big", limited(pod("limited", "1", "8"), time.Minute)),
		in("big", theirs),
		in("big", pod("other-type", "1", "8").Annotation(names.AnnotationGPUTypes, "A100-80G").Obj()),
		in("small", pod("other-pool", "1", "8").Obj()),
		pod("no-gpu", "1", "").Obj(),
	}
	window := reservation.Window{Name: "w", Pool: "big", From: now.Add(-time.Hour), To: now, Namespaces: []string{"owner"}}
	ahead := window
	ahead.From, ahead.To = now.Add(time.Hour), now.Add(2*time.Hour)
	few, many := rack(plugins.ManyNodes, "big", "H100"), rack(plugins.ManyNodes+1, "big", "H100")
	tests := map[string]struct {
		nodes  []*corev1.Node
		window reservation.Window
		wait   []string // the pods that are not tried
	}{
		"few nodes":                         {few, window, []string{"other-pool", "other-type", "theirs"}},
		"many nodes":                        {many, window, []string{"other-pool", "other-type", "theirs"}},
		"many, of a window that was ahead":  {many, ahead, []string{"limited", "other-pool", "other-type", "theirs"}},
		"many of another pool, and of none": {rack(plugins.ManyNodes+1, "third", "H100"), window, []string{"limited", "other-pool", "other-type", "same-pool", "same-type", "theirs"}},
		"no nodes":                          {nil, window, []string{"limited", "no-gpu", "other-pool", "other-type", "same-pool", "same-type", "theirs"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			waiting := turnedAway(t, newCluster(t), pods...)
			plugins.Release(waiting, tc.nodes, anyPod, []reservation.Window{tc.window}, now)
			var got []string
			for _, pod := range waiting.UnschedulablePods() {
				got = append(got, pod.Name)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.wait, got); diff != "" {
				t.Errorf("who still waits (-want +got):\n%s", diff)
			}
		})
	}
}

// BenchmarkRelease ends the window of a pool while many pods wait for another one: as it is done, and node by node.
func BenchmarkRelease(b *testing.B) {
	const waits = 5000
	now := time.Now()
	var pods []*corev1.Pod
	for i := range waits {
		pods = append(pods, pod(fmt.Sprint("p", i), "1", "8").Label(names.LabelPool, "small").Obj())
	}
	waiting := turnedAway(b, newCluster(b), pods...)
	windows := []reservation.Window{{Name: "w", Pool: "big", From: now.Add(-time.Hour), To: now}}
	for _, count := range []int{1, plugins.ManyNodes, 1_000} {
		nodes := rack(count, "big", "H100")
		for how, most := range map[string]int{"release": count, "node-by-node": plugins.ManyNodes} {
			b.Run(fmt.Sprintf("nodes=%d/%s", count, how), func(b *testing.B) {
				cpu := newProcessor()
				for b.Loop() {
					for some := range slices.Chunk(nodes, most) {
						plugins.Release(waiting, some, anyPod, windows, now)
					}
				}
				cpu.report(b, 1, "release")
			})
		}
	}
	if got := len(waiting.UnschedulablePods()); got != waits {
		b.Fatalf("%d of %d pods wait", got, waits)
	}
}
