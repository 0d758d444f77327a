package plugins_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/plugins/gpufilter"
	"g8s.host/gpu-scheduler/test/upstream"
)

// TestWhoCameFirstIsTriedFirst in the real queue of kube-scheduler, which notes when a pod came there as it puts it among those to be
// tried, and not when it tries it: one that was never tried goes neither before one that waits for another attempt, nor behind those
// that came after it. Of their names the order is the other way round.
func TestWhoCameFirstIsTriedFirst(t *testing.T) {
	c := newCluster(t, gpuNode("a", "pcie"))
	line := c.scheduler.SchedulingQueue
	add := func(pod *corev1.Pod) { upstream.Add(line, pod) }
	gated := pod("x-gated", "1", "1").SchedulingGates([]string{"wait"}).Obj()
	add(gated)
	waited := pod("z-waited", "1", "1").Obj()
	for range 3 {
		turnedAwayAgain(t, c, waited)
	}
	add(pod("y-second", "1", "1").Obj())
	open := gated.DeepCopy()
	open.Spec.SchedulingGates = nil
	upstream.Update(line, gated, open)
	add(pod("w-fourth", "1", "1").Obj())
	add(pod("a-higher", "1", "1").Priority(1).Obj())
	upstream.Activate(line, waited)

	var got []string
	for range 5 {
		got = append(got, upstream.Pop(t, line).Pod().Name)
	}
	if want := []string{"a-higher", "z-waited", "y-second", "x-gated", "w-fourth"}; !slices.Equal(got, want) {
		t.Errorf("they are tried in the order %s, want %s", strings.Join(got, ", "), strings.Join(want, ", "))
	}
}

// turnedAwayAgain has a pod tried that finds no room, whether it is in the queue or not.
func turnedAwayAgain(t *testing.T, c *cluster, pod *corev1.Pod) {
	t.Helper()
	line := c.scheduler.SchedulingQueue
	if upstream.Has(line, pod) {
		upstream.Activate(line, pod)
	} else {
		upstream.Add(line, pod)
	}
	upstream.TurnAway(t, line, 1, gpufilter.Name)
}
