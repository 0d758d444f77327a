package gang

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
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
	e.waitTold("rest", "room for 1 of 2 members now")
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
	e.waitTold("rest", "room for 1 of 2 members now")
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
