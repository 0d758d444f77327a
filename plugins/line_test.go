package plugins_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"g8s.host/gpu-scheduler/plugins/gpufilter"
)

// TestWhoCameFirstIsTriedFirst in the real queue of kube-scheduler, which notes when a pod came there as it puts it among those to be
// tried, and not when it tries it: one that was never tried goes neither before one that waits for another attempt, nor behind those
// that came after it. Of their names the order is the other way round.
func TestWhoCameFirstIsTriedFirst(t *testing.T) {
	c := newCluster(t, gpuNode("a", "pcie"))
	line := c.scheduler.SchedulingQueue
	add := func(pod *corev1.Pod) { line.Add(klog.Background(), pod) }
	gated := pod("x-gated", "1", "1").SchedulingGates([]string{"wait"}).Obj()
	add(gated)
	waited := pod("z-waited", "1", "1").Obj()
	for range 3 {
		turnedAwayAgain(t, c, waited)
	}
	add(pod("y-second", "1", "1").Obj())
	open := gated.DeepCopy()
	open.Spec.SchedulingGates = nil
	line.Update(klog.Background(), gated, open)
	add(pod("w-fourth", "1", "1").Obj())
	add(pod("a-higher", "1", "1").Priority(1).Obj())
	line.Activate(klog.Background(), map[string]*corev1.Pod{waited.Name: waited})

	var got []string
	for range 5 {
		info, err := line.Pop(klog.Background())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, info.Pod.Name)
	}
	if want := []string{"a-higher", "z-waited", "y-second", "x-gated", "w-fourth"}; !slices.Equal(got, want) {
		t.Errorf("they are tried in the order %s, want %s", strings.Join(got, ", "), strings.Join(want, ", "))
	}
}

// turnedAwayAgain has a pod tried that finds no room, whether it is in the queue or not.
func turnedAwayAgain(t *testing.T, c *cluster, pod *corev1.Pod) {
	t.Helper()
	line := c.scheduler.SchedulingQueue
	if _, known := line.GetPod(pod.Name, pod.Namespace); known {
		line.Activate(klog.Background(), map[string]*corev1.Pod{pod.Name: pod})
	} else {
		line.Add(klog.Background(), pod)
	}
	info, err := line.Pop(klog.Background())
	if err != nil {
		t.Fatal(err)
	}
	info.UnschedulablePlugins.Insert(gpufilter.Name)
	if err := line.AddUnschedulableIfNotPresent(klog.Background(), info, line.SchedulingCycle()); err != nil {
		t.Fatal(err)
	}
}
