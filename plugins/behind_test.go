package plugins_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/plugins/gpufilter"
	"g8s.host/gpu-scheduler/test/upstream"
)

// TestWhoFailedGoesBehindWhoCameMeanwhile, as in stock: one that does not fit does not keep those waiting that do, however old it is. A second
// failure has it go behind those again that came before that.
func TestWhoFailedGoesBehindWhoCameMeanwhile(t *testing.T) {
	c := newCluster(t, gpuNode("a", "pcie"))
	line := c.scheduler.SchedulingQueue
	failed := pod("a-failed", "1", "1").Obj()
	upstream.Add(line, failed)
	for _, name := range []string{"z-meanwhile", "y-meanwhile"} {
		tried := upstream.Pop(t, line)
		upstream.Add(line, pod(name, "1", "1").Obj())
		upstream.PutBack(t, line, tried, gpufilter.Name)
		upstream.Activate(line, failed)
		if got := upstream.Pop(t, line).Pod().Name; got != name {
			t.Errorf("%s is tried before %s, which came while an attempt of it failed", got, name)
		}
	}
}

// activates has a pod that failed tried again, once the attempt of another one named NAMESPACE/NAME runs.
func (l *loop) activates(pod *corev1.Pod, during string) {
	l.during = func(other *corev1.Pod) {
		if other.Namespace+"/"+other.Name == during {
			l.during = nil
			upstream.Activate(l.scheduler.SchedulingQueue, pod)
		}
	}
}
