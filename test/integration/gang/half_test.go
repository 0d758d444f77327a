package gang

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/clustertest"
)

// controlled gives a pod a controller, which must be there: pods that nobody would make again are left alone.
func (e *env) controlled() func(*corev1.Pod) {
	e.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "controller"}}
	owner, err := cluster.Client.CoreV1().ConfigMaps(e.Namespace).Create(e.Context(), object, metav1.CreateOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
	}
}

// allTold waits until all of some pods are told that they wait. What the scheduler tells one that is bound before that would write over
// when it was bound, as no kubelet is here to say it again.
func (e *env) allTold(text string, pods ...string) {
	e.Helper()
	for _, pod := range pods {
		e.waitTold(pod, text)
	}
}

// TestHalfAGangEnds that a leader left which died between two bindings, when another pod has the place of the rest: here the
// administrator binds. It says why, and the other member waits.
func TestHalfAGangEnds(t *testing.T) {
	e := newEnv(t)
	e.member("", "other")
	e.waitBound("other")
	pods := cluster.Client.CoreV1().Pods(e.Namespace)
	other, err := pods.Get(t.Context(), "other", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e.group("g", 2)
	controlled := e.controlled()
	e.member("g", "bound", controlled)
	e.member("g", "rest", controlled)
	e.allTold("room for 1 of 2 members now", "bound", "rest")
	free := map[string]string{"gang-01": "gang-02", "gang-02": "gang-01"}[other.Spec.NodeName]
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "bound"}, Target: corev1.ObjectReference{Kind: "Node", Name: free}}
	if err := pods.Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.Within(soon, "half of the gang to end", func(ctx context.Context) (bool, error) {
		pod, err := pods.Get(ctx, "bound", metav1.GetOptions{})
		return apierrors.IsNotFound(err) || err == nil && pod.DeletionTimestamp != nil, nil
	})
	e.Eventually("an event to say why", func(ctx context.Context) (bool, error) {
		list, err := cluster.Client.CoreV1().Events(e.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=bound"})
		return err == nil && slices.ContainsFunc(list.Items, func(event corev1.Event) bool { return event.Reason == "Dissolved" }), err
	})
	e.staysUnbound("rest")
}

// TestHalfAGangEndsThoughAMemberIsMadeAgain before its time is over: the new one is younger than the binding of the other, as that of a
// gang is which was whole once.
func TestHalfAGangEndsThoughAMemberIsMadeAgain(t *testing.T) {
	e := newEnv(t)
	e.member("", "other")
	e.waitBound("other")
	pods := cluster.Client.CoreV1().Pods(e.Namespace)
	other, err := pods.Get(t.Context(), "other", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e.group("g", 2)
	controlled := e.controlled()
	e.member("g", "bound", controlled)
	e.member("g", "rest", controlled)
	e.allTold("room for 1 of 2 members now", "bound", "rest")
	free := map[string]string{"gang-01": "gang-02", "gang-02": "gang-01"}[other.Spec.NodeName]
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "bound"}, Target: corev1.ObjectReference{Kind: "Node", Name: free}}
	if err := pods.Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // the scheduler finds it half, and gives it five
	if err := pods.Delete(t.Context(), "rest", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		t.Fatal(err)
	}
	e.member("g", "again", controlled)
	e.Within(soon, "half of the gang to end", func(ctx context.Context) (bool, error) {
		pod, err := pods.Get(ctx, "bound", metav1.GetOptions{})
		return apierrors.IsNotFound(err) || err == nil && pod.DeletionTimestamp != nil, nil
	})
	e.staysUnbound("again")
}

// another starts a scheduler, which stands by while one leads.
func another(t *testing.T) *sandbox.Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	next, err := cluster.StartScheduler(ctx, sandbox.SchedulerOptions{Name: fmt.Sprint("gpu-scheduler-", time.Now().UnixNano())})
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// bindPart binds a member as a leader does that dies then: by a plan of more members.
func (e *env) bindPart(name, node string, members int) {
	e.Helper()
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			names.AnnotationGangPlan: fmt.Sprintf("%s/%d", time.Now().UTC().Format(time.RFC3339Nano), members),
		}},
		Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}
	if err := cluster.Client.CoreV1().Pods(e.Namespace).Bind(e.Context(), binding, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
}

// deleteNow deletes a pod that nothing waits for.
func (e *env) deleteNow(name string) {
	e.Helper()
	if err := cluster.Client.CoreV1().Pods(e.Namespace).Delete(e.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}); err != nil {
		e.Fatal(err)
	}
}

// nodeOf is where a pod is bound.
func (e *env) nodeOf(name string) string {
	e.Helper()
	pod, err := cluster.Client.CoreV1().Pods(e.Namespace).Get(e.Context(), name, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return pod.Spec.NodeName
}

// TestTheNextLeaderCompletesAGangFirst, though another pod of its priority came before it and would take the room: the leader dies between
// two bindings, while the next one stands by, in whose queue the members are since before the first.
func TestTheNextLeaderCompletesAGangFirst(t *testing.T) {
	e, next := newEnv(t), another(t)
	e.member("", "one")
	e.member("", "two")
	e.waitBound("one")
	e.waitBound("two")
	e.member("", "older")
	e.waitTold("older", "nodes are available")
	time.Sleep(1100 * time.Millisecond) // a PodGroup says when it was made in whole seconds
	e.group("g", 2)
	controlled := e.controlled()
	e.member("g", "bound", controlled)
	e.member("g", "rest", controlled)
	e.allTold("room for 0 of 2 members now", "bound", "rest")
	node := e.nodeOf("one")
	if err := cluster.Scheduler.Kill(); err != nil {
		t.Fatal(err)
	}
	e.deleteNow("one")
	e.deleteNow("two")
	cluster.Scheduler = next
	e.bindPart("bound", node, 2)
	e.waitBound("rest")
	e.staysUnbound("older")
}

// TestAPartOfAGangEndsUnderANewLeader that starts after all of it: the member that waits is younger than the binding of the other, and there
// are more than it takes. Nothing but the plan on the Binding tells that it never was whole.
func TestAPartOfAGangEndsUnderANewLeader(t *testing.T) {
	e := newEnv(t)
	e.member("", "one")
	e.member("", "two")
	e.waitBound("one")
	e.waitBound("two")
	e.group("g", 2)
	controlled := e.controlled()
	for _, name := range []string{"bound", "rest", "more"} {
		e.member("g", name, controlled)
	}
	e.allTold("room for 0 of 2 members now", "bound", "rest", "more")
	if err := cluster.Scheduler.Kill(); err != nil {
		t.Fatal(err)
	}
	node := e.nodeOf("one")
	e.deleteNow("one")
	e.bindPart("bound", node, 2)
	e.deleteNow("rest")
	time.Sleep(1100 * time.Millisecond) // pods say when they were made in whole seconds
	e.member("g", "again", controlled)
	cluster.Scheduler = another(t)
	e.Within(soon, "the part to end", func(ctx context.Context) (bool, error) {
		pod, err := cluster.Client.CoreV1().Pods(e.Namespace).Get(ctx, "bound", metav1.GetOptions{})
		return apierrors.IsNotFound(err) || err == nil && pod.DeletionTimestamp != nil, nil
	})
}
