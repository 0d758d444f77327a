package scheduler

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/test/abuse"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/fixture"
)

const (
	// patience is how long a test waits for what is under no limit.
	patience = bounds.Patience
	poll     = 10 * time.Millisecond
	// mostMemory is what the scheduler may hold, in MiB: half of what its Deployment gives it.
	mostMemory = 1024
)

// taint keeps the nodes of others for others: whoever takes a place there by right is no abuse.
var taint = corev1.Taint{Key: "others", Effect: corev1.TaintEffectNoSchedule}

func ofOthers(node *corev1.Node) *corev1.Node {
	node.Spec.Taints = []corev1.Taint{taint}
	return node
}

// env is a namespace of a test.
type env struct {
	*testing.T
	namespace string
}

func newEnv(t *testing.T) *env {
	t.Helper()
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "abuse-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e := &env{T: t, namespace: namespace.Name}
	t.Cleanup(func() { e.deletePods(context.Background()) })
	return e
}

func (e *env) deletePods(ctx context.Context) {
	e.Helper()
	pods, now := client.CoreV1().Pods(e.namespace), metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	some := metav1.ListOptions{Limit: 500} // a request that deletes thousands takes longer than the API server has for one
	for {
		left, err := pods.List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil && len(left.Items) > 0 {
			err = pods.DeleteCollection(ctx, now, some)
		}
		if err != nil {
			e.Error(err)
		}
		if err != nil || len(left.Items) == 0 {
			return
		}
	}
}

func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// node adds a node for as long as the test runs.
func (e *env) node(node *corev1.Node) {
	e.Helper()
	_, err := client.CoreV1().Nodes().Create(e.Context(), node, metav1.CreateOptions{})
	e.must(err)
	e.Cleanup(func() {
		if err := client.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			e.Error(err)
		}
	})
}

func (e *env) pod(pod *corev1.Pod) *corev1.Pod {
	e.Helper()
	created, err := client.CoreV1().Pods(e.namespace).Create(e.Context(), pod, metav1.CreateOptions{})
	e.must(err)
	return created
}

// bound waits for a node for a pod.
func (e *env) bound(name string) *corev1.Pod {
	e.Helper()
	return e.await(name, func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
}

// rejected waits until the scheduler has said why a pod cannot be placed, and returns it.
func (e *env) rejected(name string) string {
	e.Helper()
	return whyNot(e.await(name, func(pod *corev1.Pod) bool { return whyNot(pod) != "" }))
}

func whyNot(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}

func (e *env) await(name string, done func(*corev1.Pod) bool) *corev1.Pod {
	e.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(poll) {
		pod, err := client.CoreV1().Pods(e.namespace).Get(e.Context(), name, metav1.GetOptions{})
		e.must(err)
		if done(pod) {
			return pod
		}
		if time.Now().After(deadline) {
			e.Fatalf("waited %s for pod %s; it is on node %q, the scheduler says %q", patience, name, pod.Spec.NodeName, whyNot(pod))
		}
	}
}

// watchOthers has a pod of somebody else come every so often until stop is called, and fails the test if one waits for too
// long. It returns how long they waited.
func (e *env) watchOthers() (stop func() []time.Duration) {
	e.Helper()
	ctx, cancel := context.WithCancel(e.Context())
	done := make(chan struct{})
	good := newEnv(e.T)
	var waits []time.Duration
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil || i < 5; i++ {
			wait, err := good.placeOne(ctx, fmt.Sprintf("good-%d", i))
			if err != nil {
				e.Error(err)
				return
			}
			if wait > abuse.OthersWait() {
				e.Errorf("a pod of somebody else waited %s, want at most %s", wait, abuse.OthersWait())
			}
			waits = append(waits, wait)
			time.Sleep(50 * time.Millisecond)
		}
	}()
	return func() []time.Duration {
		e.Helper()
		cancel()
		<-done
		if len(waits) == 0 {
			return waits // told already
		}
		slices.Sort(waits)
		e.Logf("%d pods of others waited %s in the median, %s at most", len(waits), waits[len(waits)/2], waits[len(waits)-1])
		return waits
	}
}

// placeOne has a pod placed, and takes it away again. It goes on after ctx has ended.
func (e *env) placeOne(ctx context.Context, name string) (time.Duration, error) {
	ctx = context.WithoutCancel(ctx)
	pod := fixture.Pod(name).Pool(others).GPUs(1).Obj()
	pod.Spec.Tolerations = []corev1.Toleration{{Key: taint.Key, Operator: corev1.TolerationOpExists}}
	pods := client.CoreV1().Pods(e.namespace)
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	for began := time.Now(); ; time.Sleep(poll) {
		created, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return 0, err
		}
		if created.Spec.NodeName != "" {
			return time.Since(began), pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		}
		if time.Since(began) > patience {
			return 0, fmt.Errorf("a pod of somebody else is not placed after %s: %q", patience, whyNot(created))
		}
	}
}

// schedulerIsWell checks that the process lives, and what it has held at most.
func (e *env) schedulerIsWell() {
	e.Helper()
	e.schedulerHolds(mostMemory)
}

// schedulerHolds checks that the process lives, and that it has never held more MiB than that.
func (e *env) schedulerHolds(most int) {
	e.Helper()
	select {
	case <-scheduler.Done():
		e.Fatalf("the scheduler has ended: %v\n%s", scheduler.Wait(), scheduler.LogTail())
	default:
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", scheduler.PID()))
	e.must(err)
	for line := range strings.Lines(string(status)) {
		text, ok := strings.CutPrefix(line, "VmHWM:")
		if !ok {
			continue
		}
		kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "kB")))
		e.must(err)
		e.Logf("the scheduler has held %d MiB at most", kib/1024)
		if kib/1024 > most {
			e.Errorf("the scheduler has held %d MiB, want at most %d", kib/1024, most)
		}
		return
	}
	e.Fatal("the system does not tell what the scheduler holds")
}

var podGroups = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}
