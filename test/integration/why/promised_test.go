package why

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestWhoIsFirstIsPromisedAStart on the node where those who run end: it is told by when, and starts then.
func TestWhoIsFirstIsPromisedAStart(t *testing.T) {
	e := newEnv(t)
	e.createNodes(e.node("n0").GPUs(8, a100).Obj(), e.node("n1").GPUs(8, a100).Obj())
	e.hold("n0", 8) // for ever
	e.createPod(e.limited("ends", 4, 3600, e.namespace+"-n1"))
	e.waits(e.pod(8).Obj())
	e.want(reason.Busy, "1 node(s) are kept for the job, which starts there by")
	e.remove("ends")
	if node := e.bound().Spec.NodeName; node != e.namespace+"-n1" {
		t.Errorf("it runs on %s", node)
	}
}

// TestWhatWasPromisedIsLeft by a job that could be there still, and used by one that ends before.
func TestWhatWasPromisedIsLeft(t *testing.T) {
	e := newEnv(t)
	e.createNodes(e.node("n0").GPUs(8, a100).Obj())
	e.createPod(e.limited("ends", 4, 3600, e.namespace+"-n0"))
	e.createPod(fixture.Pod("large").GPUs(8).Pool(e.pool).Obj())
	e.eventually("the large job to be promised a start", func(ctx context.Context) bool {
		return strings.Contains(e.verdictOn(ctx, "large"), "promised: 1 node(s) are kept for it")
	})
	e.waits(e.pod(2).Obj())
	e.want(reason.StartReservedForFirst, "was promised to a job that comes before this one", "set resources.time-limit", "use a higher priority")
	e.createPod(e.limited("short", 2, 600, ""))
	e.eventually("the short job to run in the meantime", func(ctx context.Context) bool { return e.nodeOf(ctx, "short") != "" })
	e.remove("short")
	e.remove("ends")
	e.eventually("the large job to start", func(ctx context.Context) bool { return e.nodeOf(ctx, "large") != "" })
	e.remove("large")
	e.bound()
}

// limited is a pod of the pool with a deadline of so many seconds, on a node or for the scheduler.
func (e *env) limited(name string, gpus, seconds int64, node string) *corev1.Pod {
	pod := fixture.Pod(name).GPUs(gpus).Pool(e.pool).Obj()
	pod.Spec.ActiveDeadlineSeconds, pod.Spec.NodeName = ptr.To(seconds), node
	return pod
}

func (e *env) nodeOf(ctx context.Context, name string) string {
	e.Helper()
	pod, err := client.CoreV1().Pods(e.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return pod.Spec.NodeName
}

// verdictOn is what the scheduler said last of a pod.
func (e *env) verdictOn(ctx context.Context, name string) (verdict string) {
	e.Helper()
	pod, err := client.CoreV1().Pods(e.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			verdict = condition.Message
		}
	}
	return verdict
}
