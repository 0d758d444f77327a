package plugins_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"g8s.host/gpu-scheduler/plugins/gpufilter"
)

// TestWhoFailedGoesBehindWhoCameMeanwhile, as in stock: one that does not fit does not keep those waiting that do, however old it is. A second
// failure has it go behind those again that came before that.
func TestWhoFailedGoesBehindWhoCameMeanwhile(t *testing.T) {
	c := newCluster(t, gpuNode("a", "pcie"))
	line := c.scheduler.SchedulingQueue
	next := func() *framework.QueuedPodInfo {
		info, err := line.Pop(klog.Background())
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	failed := pod("a-failed", "1", "1").Obj()
	line.Add(klog.Background(), failed)
	for _, name := range []string{"z-meanwhile", "y-meanwhile"} {
		tried := next()
		line.Add(klog.Background(), pod(name, "1", "1").Obj())
		tried.UnschedulablePlugins.Insert(gpufilter.Name)
		if err := line.AddUnschedulableIfNotPresent(klog.Background(), tried, line.SchedulingCycle()); err != nil {
			t.Fatal(err)
		}
		line.Activate(klog.Background(), map[string]*corev1.Pod{failed.Name: failed})
		if got := next().Pod.Name; got != name {
			t.Errorf("%s is tried before %s, which came while an attempt of it failed", got, name)
		}
	}
}

// activates has a pod that failed tried again, once the attempt of another one named NAMESPACE/NAME runs.
func (l *loop) activates(pod *corev1.Pod, during string) {
	l.during = func(other *corev1.Pod) {
		if other.Namespace+"/"+other.Name == during {
			l.during = nil
			l.scheduler.SchedulingQueue.Activate(klog.Background(), map[string]*corev1.Pod{pod.Name: pod})
		}
	}
}
