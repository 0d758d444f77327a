package scheduler

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/abuse"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/fixture"
)

const (
	// mostAtRest is the part of a core that the scheduler may take while thousands of pods wait and nothing changes, mostLonger how many
	// times as long as on an idle cluster the pods of others may wait then.
	mostAtRest, mostLonger = 0.05, 2
	// watched is how long that is looked at.
	watched = 20 * time.Second
	// mostOfACrowd is what the scheduler may hold then, in MiB: of 20,000 pods of 100 terms each 35 KiB, and as much again before they are
	// collected. It is what its Deployment gives it.
	mostOfACrowd = 2048
)

// TestACrowdOfOneNamespace has 20,000 pods of one namespace wait whose affinity has as many terms as it may, while other pods of that namespace
// leave the nodes for which they wait. The pods of others are placed as fast as if those were not there, and the scheduler rests when nothing
// changes.
func TestACrowdOfOneNamespace(t *testing.T) {
	bounds.SkipInShort(t)
	restartScheduler(t)
	e := newEnv(t)
	stop := e.watchOthers()
	time.Sleep(watched)
	idle := stop()
	for i := range rounds(40, 200) {
		e.node(fixture.Node(fmt.Sprintf("long-%d", i)).Pool("long").GPUs(1, "T4").Obj())
	}
	for i := range rounds(40, 200) {
		e.pod(fixture.Pod(fmt.Sprintf("brief-%d", i)).Pool("long").GPUs(1).Obj())
		e.bound(fmt.Sprintf("brief-%d", i))
	}
	stop = e.watchOthers()
	e.makeCrowd(rounds(500, 20_000))
	stop()
	e.awaitTried()

	stop = e.watchOthers()
	e.deleteBrief(rounds(40, 200))
	beside := stop()
	e.schedulerHolds(mostOfACrowd)
	e.awaitTried()
	// A wait ends with the poll that sees the binding.
	if limit := mostLonger*percentile(idle, 99) + poll; percentile(beside, 99) > limit && abuse.All() {
		e.Errorf("the pods of others wait %s (p99), want at most %s, twice as long as on an idle cluster", percentile(beside, 99), limit)
	}
}

// restartScheduler has the tests that follow find another scheduler: they hold it to less memory than this one may have had.
func restartScheduler(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if err := scheduler.Stop(); err != nil {
			t.Error(err)
		}
		var err error
		if scheduler, err = cluster.StartScheduler(context.WithoutCancel(t.Context()), sandbox.SchedulerOptions{}); err != nil {
			t.Fatal(err)
		}
	})
}

// makeCrowd makes so many pods, some at a time.
func (e *env) makeCrowd(pods int) {
	e.Helper()
	var next atomic.Int64
	failed := make(chan error)
	const together = 8
	for range together {
		go func() {
			var err error
			for i := int(next.Add(1)); i <= pods && err == nil; i = int(next.Add(1)) {
				_, err = client.CoreV1().Pods(e.namespace).Create(e.Context(), longAttempt(i, 1), metav1.CreateOptions{})
			}
			failed <- err
		}()
	}
	for range together {
		e.must(<-failed)
	}
}

// deleteBrief has the pods that run where the others wait leave, ten a second.
func (e *env) deleteBrief(pods int) {
	e.Helper()
	for i := range pods {
		e.must(client.CoreV1().Pods(e.namespace).Delete(e.Context(), fmt.Sprintf("brief-%d", i), metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
		time.Sleep(100 * time.Millisecond)
	}
}

// awaitTried waits until the scheduler is at rest, which it is when it has tried all, and until kube-scheduler tries each again, after 5 minutes.
func (e *env) awaitTried() {
	e.Helper()
	for deadline := time.Now().Add(5 * patience); e.usage(watched/2) > mostAtRest; {
		if time.Now().After(deadline) {
			e.Fatalf("the scheduler does not come to rest in %s", 5*patience)
		}
	}
}

// usage is the part of a core that the scheduler takes meanwhile.
func (e *env) usage(meanwhile time.Duration) float64 {
	e.Helper()
	began, at := abuse.CPUTime(e, scheduler.PID()), time.Now()
	time.Sleep(meanwhile)
	used := float64(abuse.CPUTime(e, scheduler.PID())-began) / float64(time.Since(at))
	e.Logf("the scheduler takes %.3f of a core", used)
	return used
}

// percentile returns one of what is sorted.
func percentile(sorted []time.Duration, percent int) time.Duration {
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}
