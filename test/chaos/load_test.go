package chaos

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/fixture"
	"g8s.host/gpu-scheduler/test/oracle"
)

const (
	pool     = "chaos"
	profile  = "1g.10gb" // of the MIG slices
	patience = bounds.Patience
	poll     = 10 * time.Millisecond

	// running is how many pods run at a time. The nodes have room for them and for one round, and not for much
	// more, so that leaders who disagree about who is where would collide.
	running = 100
)

// load is the pods of one test, and the record of what happened to them.
type load struct {
	*testing.T
	namespace string
	recorder  *oracle.Recorder
	submitted []*corev1.Pod
	finished  int // of the pods, in the order in which they were bound
}

// newLoad creates the nodes and starts the record.
func newLoad(t *testing.T) *load {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "chaos-"}}
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l := &load{T: t, namespace: namespace.Name}
	t.Cleanup(l.cleanUp)
	for _, node := range nodes(t) {
		if _, err := client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if l.recorder, err = oracle.Watch(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *load) cleanUp() {
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	if err := client.CoreV1().Pods(l.namespace).DeleteCollection(context.Background(), now, metav1.ListOptions{}); err != nil {
		l.Error(err)
	}
	if err := client.CoreV1().Nodes().DeleteCollection(context.Background(), now, metav1.ListOptions{}); err != nil {
		l.Error(err)
	}
}

// nodes are 40 with 8 whole GPUs, 2 with 2 cards of 16 GiB that are shared, and 2 with 2 cards in MIG mode, of 7 slices each.
func nodes(t *testing.T) []*corev1.Node {
	t.Helper()
	var nodes []*corev1.Node
	for i := range 40 {
		nodes = append(nodes, fixture.Node(fmt.Sprintf("whole-%d", i)).Pool(pool).GPUs(8, "A100-80G").Interconnect(names.InterconnectNVLink).Obj())
	}
	for i := range 2 {
		nodes = append(nodes, fixture.Node(fmt.Sprintf("shared-%d", i)).Pool(pool).SharedGPUs(2, 20).
			Label(names.LabelGPUType, "T4-16G").Label(names.LabelMemory, "16Gi").Obj())
	}
	for i := range 2 {
		name := fmt.Sprintf("sliced-%d", i)
		cards := fixture.Cards(name, 81920, 81920).Sliced(profile, 7, 0, 1).Annotation(t)
		nodes = append(nodes, fixture.Node(name).Pool(pool).Slices(profile, 14).Annotate(names.AnnotationInventory, cards).Obj())
	}
	return nodes
}

// pod is the i-th: one in ten shares a card, one has 1 or 2 MIG slices, and the others have 1, 2 or 4 cards for themselves.
func pod(i int) *corev1.Pod {
	made := fixture.Pod(fmt.Sprintf("pod-%d", i)).Pool(pool)
	switch i % 10 {
	case 4:
		return made.SharedGPUs(1, "3Gi").Obj()
	case 9:
		return made.Slices(profile, int64(1+i/10%2)).Obj()
	}
	return made.GPUs([]int64{1, 2, 4, 1, 2, 1, 4}[i%7]).Obj()
}

// submitting creates more pods, one after another, while the test goes on. The function it returns waits for the end.
func (l *load) submitting(count int) (wait func()) {
	done := make(chan error, 1)
	go func() {
		for range count {
			created, err := user.CoreV1().Pods(l.namespace).Create(l.Context(), pod(len(l.submitted)), metav1.CreateOptions{})
			if err != nil {
				done <- err
				return
			}
			l.submitted = append(l.submitted, created)
		}
		done <- nil
	}()
	return func() {
		l.Helper()
		if err := <-done; err != nil {
			l.Fatal(err)
		}
	}
}

// finish ends the pods that have run longest, so that no more than running are left.
func (l *load) finish(bindings []oracle.Binding) {
	l.Helper()
	patch := fmt.Appendf(nil, `{"status":{"phase":%q}}`, corev1.PodSucceeded)
	for ; len(bindings)-l.finished > running; l.finished++ {
		name := bindings[l.finished].Pod[len(l.namespace)+1:]
		_, err := client.CoreV1().Pods(l.namespace).Patch(l.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil {
			l.Fatal(err)
		}
	}
}

// bound waits until count more pods than before are bound.
func (l *load) bound(before, count int) {
	l.Helper()
	l.await(fmt.Sprintf("%d more pods to be bound", count), func(bindings []oracle.Binding) bool {
		return len(bindings) >= before+count
	})
}

// boundAfter waits for the first binding of another leadership than epoch, and returns it.
func (l *load) boundAfter(epoch string) (first oracle.Binding) {
	l.Helper()
	l.await("the next leader to bind a pod", func(bindings []oracle.Binding) bool {
		for _, first = range bindings {
			if first.Epoch != "" && termOf(l.T, first.Epoch) > termOf(l.T, epoch) {
				return true
			}
		}
		return false
	})
	return first
}

// await waits for something to happen to the bindings. Pods go on to end meanwhile, so that there is always room for
// those that wait.
func (l *load) await(what string, done func([]oracle.Binding) bool) {
	l.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(poll) {
		bindings := l.recorder.History().Bindings()
		if done(bindings) {
			return
		}
		if time.Now().After(deadline) {
			l.Fatalf("waited %s for %s\n%s", patience, what, l.waiting())
		}
		l.finish(bindings)
	}
}

// waiting lists the pods that are not bound, each with what the scheduler says of it.
func (l *load) waiting() string {
	l.Helper()
	pods, err := client.CoreV1().Pods(l.namespace).List(context.Background(), metav1.ListOptions{FieldSelector: "spec.nodeName="})
	if err != nil {
		return err.Error()
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d pods wait\n", len(pods.Items))
	for _, pod := range pods.Items {
		fmt.Fprintf(&text, "%s, created %s", pod.Name, pod.CreationTimestamp.UTC().Format(time.TimeOnly))
		for _, condition := range pod.Status.Conditions {
			fmt.Fprintf(&text, ", %s=%s since %s: %s", condition.Type, condition.Status,
				condition.LastTransitionTime.UTC().Format(time.TimeOnly), condition.Message)
		}
		text.WriteByte('\n')
	}
	return text.String()
}

// judge waits until all pods are placed, and holds the history against the promises.
func (l *load) judge() {
	l.Helper()
	l.bound(0, len(l.submitted))
	ctx, cancel := context.WithTimeout(l.Context(), patience)
	defer cancel()
	history, err := l.recorder.Stop(ctx)
	if err != nil {
		l.Fatal(err)
	}
	violations := append(oracle.Check(history), oracle.Lost(history, l.submitted)...)
	for _, violation := range violations {
		l.Error(violation)
	}
	l.Logf("%d pods and %d revisions, %d violations", len(l.submitted), len(history), len(violations))
}
