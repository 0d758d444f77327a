package coscheduling

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// TestWhoWaitsForItsTurnIsTriedThen, whatever happens in the cluster or does not.
func TestWhoWaitsForItsTurnIsTriedThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 1200)
		l.answers()
		for node := range l.infos {
			l.running(node, fmt.Sprint("on", node), 1, ofPriority(-1), func(pod *corev1.Pod) { pod.Labels["app"] = "all" })
		}
		l.protects("ns", "all")
		l.share(quotaOf("mine", 1<<20, 0))
		l.quotas.UseManualUpdates() // all would be counted anew for each question
		try := func(name string) (evicted []string) {
			_, evicted = l.postFilter(framework.NewCycleState(), l.alone("mine", name))
			return evicted
		}
		try("first")
		try("second")
		l.protects("ns") // they may leave now
		if l.forget(); len(try("second")) > 0 || len(l.tried()) > 0 {
			t.Fatalf("the second does not wait for its turn, and %v are tried", l.tried())
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := l.tried(); len(got) != 1 || got[0] != "mine/second" {
			t.Errorf("%v are tried, want the one that waits for its turn", got)
		}
		if got := try("second"); len(got) != 1 {
			t.Errorf("%v leave for it then", got)
		}
		time.Sleep(time.Hour)
	})
}
