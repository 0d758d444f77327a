package plugins_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/plugins/gpufilter"
	"g8s.host/gpu-scheduler/plugins/gpuscore"
	"g8s.host/gpu-scheduler/test/upstream"
)

// withWaiting is a scheduler in whose queue pods wait for cards, of the shipped profile with all its hints.
func withWaiting(t testing.TB, count int) *cluster {
	t.Helper()
	c := newCluster(t, gpuNode("a", "pcie"))
	plugins.Wrap(c.scheduler, plugins.Options{})
	q := c.scheduler.SchedulingQueue
	for i := range count {
		upstream.Add(q, pod(fmt.Sprint("w", i), "1", "4").SchedulerName(names.SchedulerName).UID(fmt.Sprint("w", i)).Obj())
	}
	upstream.TurnAway(t, q, count, gpufilter.Name, gpuscore.Name)
	if got := len(q.UnschedulablePods()); got != count {
		t.Fatalf("%d pods wait, want %d", got, count)
	}
	return c
}

// update tells the queue what kube-scheduler's event handlers tell it of an update of a pod.
func (c *cluster) update(before, after *corev1.Pod) {
	for _, event := range framework.PodSchedulingPropertiesChange(after, before, after.Spec.NodeName == "") {
		c.scheduler.SchedulingQueue.MoveAllToActiveOrBackoffQueue(klog.Background(), event, before, after, nil)
	}
}

func TestOnlyChangesOfCardsOrRequestsWake(t *testing.T) {
	running := func(change func(*corev1.Pod)) *corev1.Pod {
		p := pod("running", "1", "4").UID("running").Node("a").Annotation(names.AnnotationGPUDevices, "{}").Obj()
		if change != nil {
			change(p)
		}
		return p
	}
	self := func(change func(*corev1.Pod)) *corev1.Pod {
		p := pod("w0", "1", "4").SchedulerName(names.SchedulerName).UID("w0").Obj()
		if change != nil {
			change(p)
		}
		return p
	}
	tests := map[string]struct {
		tell func(*cluster)
		want int // that are tried again
	}{
		"the status of a running pod": {func(c *cluster) {
			c.update(running(nil), running(func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }))
		}, 0},
		"an annotation of a running pod": {func(c *cluster) {
			c.update(running(nil), running(func(p *corev1.Pod) { p.Annotations["note"] = "x" }))
		}, 0},
		"a label of a running pod": {func(c *cluster) {
			c.update(running(nil), running(func(p *corev1.Pod) { p.Labels = map[string]string{"x": "y"} }))
		}, 0},
		"a running pod takes less CPU": {func(c *cluster) {
			c.update(running(nil), running(func(p *corev1.Pod) { delete(p.Spec.Containers[0].Resources.Requests, corev1.ResourceCPU) }))
		}, 0},
		"a running pod names other cards": {func(c *cluster) {
			c.update(running(nil), running(func(p *corev1.Pod) { p.Annotations[names.AnnotationGPUDevices] = `{"version":1}` }))
		}, 3},
		"a running pod ends": {func(c *cluster) {
			c.scheduler.SchedulingQueue.MoveAllToActiveOrBackoffQueue(klog.Background(), framework.EventAssignedPodDelete, running(nil), nil, nil)
		}, 3},
		"the pod's own status": {func(c *cluster) {
			upstream.Update(c.scheduler.SchedulingQueue, self(nil), self(func(p *corev1.Pod) { p.Status.Message = "x" }))
		}, 0},
		"the pod's own annotations": {func(c *cluster) {
			upstream.Update(c.scheduler.SchedulingQueue, self(nil), self(func(p *corev1.Pod) {
				p.Annotations = map[string]string{names.AnnotationGPUMemoryMin: "1Gi"}
			}))
		}, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := withWaiting(t, 3)
			must(t, c.scheduler.Profiles[names.SchedulerName].SharedInformerFactory().Core().V1().Nodes().Informer().GetStore().Add(gpuNode("a", "pcie")))
			tc.tell(c)
			if woken := 3 - len(c.scheduler.SchedulingQueue.UnschedulablePods()); woken != tc.want {
				t.Errorf("%d pods are tried again, want %d", woken, tc.want)
			}
		})
	}
}

// TestNoHintIsAskedForTheStatusOfARunningPod: to ask each pod that waits takes some 5 µs each, under the queue's lock.
func TestNoHintIsAskedForTheStatusOfARunningPod(t *testing.T) {
	c := newCluster(t, gpuNode("a", "pcie"))
	before := pod("running", "1", "4").Node("a").Obj()
	after := before.DeepCopy()
	after.Status.Phase = corev1.PodRunning
	event := framework.PodSchedulingPropertiesChange(after, before, false)[0]
	asked := 0
	for _, plugin := range c.scheduler.Profiles[names.SchedulerName].EnqueueExtensions() {
		registered, err := plugin.EventsToRegister(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range registered {
			asked++
			if framework.MatchClusterEvents(r.Event, event) && r.Event.Resource != fwk.WildCard {
				t.Errorf("%s asks for %v of %s", plugin.Name(), r.Event.ActionType, r.Event.Resource)
			}
		}
	}
	if asked < 10 {
		t.Errorf("the plugins ask for %d events, so the comparison proves nothing", asked)
	}
}

// BenchmarkStatusOfARunningPod is what each status of each pod in the cluster costs, under the lock of the queue.
func BenchmarkStatusOfARunningPod(b *testing.B) {
	for _, count := range []int{1000, 10000} {
		b.Run(fmt.Sprint("waiting=", count), func(b *testing.B) {
			c := withWaiting(b, count)
			before := pod("running", "1", "4").Node("a").Obj()
			before.UID = types.UID("running")
			after := before.DeepCopy()
			after.Status.Phase = corev1.PodRunning
			for b.Loop() {
				c.update(before, after)
			}
		})
	}
}
