package integration

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestPodsThatLeaveEarlyGiveTheirCardsBack deletes pods at any moment of their first milliseconds: before they are decided
// about, while they hold cards and are being bound, while others are evicted for them; some come again under the same
// name. What they held, or were to get, must be there for those who come later, of however low a priority.
func TestPodsThatLeaveEarlyGiveTheirCardsBack(t *testing.T) {
	e := newEnv(t)
	check := e.record()
	const dgx, shared = 3, 2
	for i := range dgx {
		name := fmt.Sprintf("dgx-%d", i)
		e.createNodes(fixture.Node(name).GPUs(8, "V100-32G").Annotate(names.AnnotationInventory, fixture.DGX1(name).Annotation(t)).Obj())
	}
	for i := range shared {
		e.createNodes(fixture.Node(fmt.Sprintf("shared-%d", i)).Pool("dev").SharedGPUs(4, 100).Label(names.LabelMemory, "49Gi").Obj())
	}
	failedBefore := failedAttempts(t)
	failed, rounds := 0., uint64(0)
	for ; failed < 10 && rounds < 10; rounds++ { // on a busy machine most pods are gone before they are decided about
		var workers sync.WaitGroup
		for worker := range uint64(12) {
			workers.Go(func() {
				e.comeAndGo(rand.New(rand.NewPCG(worker, rounds)), fmt.Sprintf("worker-%d-%d", rounds, worker))
			})
		}
		workers.Wait()
		if t.Failed() {
			return
		}
		failed = failedAttempts(t) - failedBefore
	}
	if failed < 10 {
		t.Errorf("%v bindings in %d rounds found their pod gone, so the test shows little", failed, rounds)
	}

	var pods []*corev1.Pod
	for i := range dgx * 8 {
		pods = append(pods, withClass(fixture.Pod(fmt.Sprint("whole-", i)).GPUs(1), names.PriorityClassLow))
	}
	for i := range shared * 4 {
		pods = append(pods, withClass(fixture.Pod(fmt.Sprint("share-", i)).SharedGPUs(1, "48Gi").Pool("dev"), names.PriorityClassLow))
	}
	e.createPods(pods...)
	e.waitAllBound(len(pods))
	check()
}

// comeAndGo creates pods, one after the other, and deletes each soon after. It may run beside the test.
func (e *env) comeAndGo(r *rand.Rand, name string) {
	pods := e.client.CoreV1().Pods(e.namespace)
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	classes := []string{names.PriorityClassLow, names.PriorityClassMedium, names.PriorityClassHigh}
	for i := range 100 {
		b := fixture.Pod(fmt.Sprintf("%s-%d", name, i/3)) // three of a name, one after the other
		if r.IntN(3) == 0 {
			b.SharedGPUs(int64(1+r.IntN(2)), fmt.Sprintf("%dGi", 8+r.IntN(40))).Pool("dev")
		} else {
			b.GPUs(1 << r.IntN(4))
		}
		pod := withClass(b, classes[r.IntN(len(classes))])
		if _, err := pods.Create(e.Context(), pod, metav1.CreateOptions{}); err != nil {
			e.Errorf("creating pod %s: %v", pod.Name, err)
			return
		}
		stay := 8 * time.Millisecond
		if r.IntN(10) == 0 { // long enough for others to be evicted
			stay = 200 * time.Millisecond
		}
		time.Sleep(time.Duration(r.Int64N(int64(stay))))
		if err := pods.Delete(e.Context(), pod.Name, now); err != nil && !apierrors.IsNotFound(err) { // it was evicted
			e.Errorf("deleting pod %s: %v", pod.Name, err)
			return
		}
	}
}

// withClass returns a pod of a priority, which ends as soon as it is deleted: there is no kubelet to end it.
func withClass(b *fixture.PodBuilder, class string) *corev1.Pod {
	pod := b.Obj()
	pod.Spec.PriorityClassName, pod.Spec.TerminationGracePeriodSeconds = class, ptr.To[int64](0)
	return pod
}

// failedAttempts returns how many scheduling attempts ended in an error, as those do whose pod is gone when it is bound.
func failedAttempts(t *testing.T) float64 {
	t.Helper()
	failed, _ := sum(scrape(t), "scheduler_schedule_attempts_total", "result", "error") // none is none
	return failed
}
