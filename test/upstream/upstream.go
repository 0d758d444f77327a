// Package upstream calls kube-scheduler's queue and loop for tests. Releases of Kubernetes change the shape of these calls, and this
// is the one place where tests make them.
package upstream

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/simulate/choice"
)

// Next takes what is tried next, as a scheduler's NextEntity does.
type Next = func(klog.Logger) (framework.QueuedEntityInfo, error)

// Taken is a pod that was taken from a queue to be tried.
type Taken struct{ info *framework.QueuedPodInfo }

// Pod is the pod.
func (t *Taken) Pod() *corev1.Pod { return t.info.Pod }

// Info is what kube-scheduler knows of the pod.
func (t *Taken) Info() fwk.PodInfo { return t.info.PodInfo }

// Add has pods wait in a queue.
func Add(waiting queue.SchedulingQueue, pods ...*corev1.Pod) {
	for _, pod := range pods {
		waiting.Add(context.Background(), pod)
	}
}

// Update tells a queue how a pod has changed that waits there.
func Update(waiting queue.SchedulingQueue, before, after *corev1.Pod) {
	waiting.Update(context.Background(), before, after)
}

// Delete tells a queue that a pod has gone, or waits no more.
func Delete(waiting queue.SchedulingQueue, pod *corev1.Pod) { waiting.Delete(klog.Background(), pod) }

// Activate has a pod of a queue tried again.
func Activate(waiting queue.SchedulingQueue, pod *corev1.Pod) {
	waiting.Activate(klog.Background(), map[string]*corev1.Pod{pod.Name: pod})
}

// Has reports whether a queue has a pod.
func Has(waiting queue.SchedulingQueue, pod *corev1.Pod) bool {
	_, has := waiting.GetPod(pod.Name, pod.Namespace, pod.Spec.SchedulingGroup)
	return has
}

// Nominate has a queue keep room for a pod on the node that it names.
func Nominate(t testing.TB, waiting queue.SchedulingQueue, pod *corev1.Pod) {
	t.Helper()
	waiting.AddNominatedPod(klog.Background(), infoOf(t, pod), nil)
}

// Pop takes the first pod of a queue.
func Pop(t testing.TB, waiting queue.SchedulingQueue) *Taken {
	t.Helper()
	return Take(t, waiting.Pop)
}

// Take takes the next pod.
func Take(t testing.TB, next Next) *Taken {
	t.Helper()
	entity, err := next(klog.Background())
	if err != nil {
		t.Fatal(err)
	}
	info, ok := entity.(*framework.QueuedPodInfo)
	if !ok {
		t.Fatalf("a %T was taken, want a pod", entity)
	}
	return &Taken{info}
}

// PutBack puts a pod back into a queue that some plugins found no node for.
func PutBack(t testing.TB, waiting queue.SchedulingQueue, taken *Taken, plugins ...string) {
	t.Helper()
	taken.info.UnschedulablePlugins.Insert(plugins...)
	if err := waiting.AddUnschedulablePodIfNotPresent(klog.Background(), taken.info, waiting.SchedulingCycle()); err != nil {
		t.Fatal(err)
	}
}

// TurnAway takes so many pods out of a queue, and puts them back as some plugins found no node for them.
func TurnAway(t testing.TB, waiting queue.SchedulingQueue, pods int, plugins ...string) {
	t.Helper()
	for range pods {
		PutBack(t, waiting, Pop(t, waiting), plugins...)
	}
}

// OfferNothing has a scheduler take no pod. taken is called each time that it would, unless it is nil.
func OfferNothing(sched *scheduler.Scheduler, taken func()) {
	sched.NextEntity = func(klog.Logger) (framework.QueuedEntityInfo, error) {
		if taken != nil {
			taken()
		}
		return nil, nil
	}
}

// Ask has a scheduler take its next pod, if there is one.
func Ask(sched *scheduler.Scheduler) error {
	_, err := sched.NextEntity(klog.Background())
	return err
}

// Choose has a scheduler choose a node for a pod.
func Choose(ctx context.Context, sched *scheduler.Scheduler, profile string, state fwk.CycleState, pod *corev1.Pod) (scheduler.ScheduleResult, error) {
	return choice.ChooseNode(ctx, sched, sched.Profiles[profile], state, pod) //nolint:wrapcheck // as kube-scheduler gives it
}

// CountChoices counts from now on how often a scheduler looks for a node.
func CountChoices(sched *scheduler.Scheduler, count *int) {
	choose := sched.SchedulePod
	sched.SchedulePod = func(ctx context.Context, profile framework.Framework, state fwk.CycleState, pod *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		*count++
		return choose(ctx, profile, state, pod)
	}
}

// Fail has a scheduler hear that an attempt of a pod has failed.
func Fail(t testing.TB, sched *scheduler.Scheduler, profile string, pod *corev1.Pod, status *fwk.Status) {
	t.Helper()
	FailBy(t, sched.FailureHandler, sched.Profiles[profile], pod, status)
}

// FailBy has the handler of a scheduler hear that an attempt of a pod has failed.
func FailBy(t testing.TB, handle scheduler.FailureHandlerFn, profile framework.Framework, pod *corev1.Pod, status *fwk.Status) {
	t.Helper()
	handle(t.Context(), profile, &framework.QueuedPodInfo{PodInfo: infoOf(t, pod)}, status, nil, time.Now())
}

func infoOf(t testing.TB, pod *corev1.Pod) *framework.PodInfo {
	t.Helper()
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	return info
}
