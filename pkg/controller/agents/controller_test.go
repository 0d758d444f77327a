package agents

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
)

// TestAnAgentThatFallsSilent: what it said becomes unknown, once, after the time of three heartbeats by our own clock, and not for
// a clock of its node that is wrong.
func TestAnAgentThatFallsSilent(t *testing.T) {
	noon := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	now := testingclock.NewFakePassiveClock(noon)
	long := metav1.NewTime(noon.Add(-1000 * time.Hour)) // by the node's clock
	withStatus := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, LastHeartbeatTime: long, LastTransitionTime: long}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
		withStatus(g8s.ConditionAgentReady, corev1.ConditionTrue, "Serving"), withStatus(g8s.ConditionGPUsHealthy, corev1.ConditionTrue, "AllHealthy"),
	}}}
	left := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "left"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
		withStatus(g8s.ConditionAgentReady, corev1.ConditionFalse, g8s.ReasonNoAgent),
	}}}
	c := fake.NewClientBuilder().WithObjects(node, left).WithStatusSubresource(node).Build()
	told := events.NewFakeRecorder(10)
	r := &Reconciler{Client: c, Events: told, Clock: now}
	look := func(name string) (time.Duration, *corev1.Node) {
		t.Helper()
		key := client.ObjectKey{Name: name}
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		if err != nil {
			t.Fatal(err)
		}
		var read corev1.Node
		if err := c.Get(t.Context(), key, &read); err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter, &read
	}
	status := func(node *corev1.Node) (out string) {
		for _, c := range node.Status.Conditions {
			out += string(c.Status) + " "
		}
		return out
	}
	if again, read := look("n"); again != silentAfter || status(read) != "True True True " {
		t.Errorf("at first: %s, looked at again in %s", status(read), again)
	}
	now.SetTime(noon.Add(silentAfter - time.Second))
	_, read := look("n")
	beat := metav1.NewTime(long.Add(time.Minute))
	condition.OfNode(read, g8s.ConditionAgentReady).LastHeartbeatTime = beat
	if err := c.Status().Update(t.Context(), read); err != nil {
		t.Fatal(err)
	}
	if again, read := look("n"); again != silentAfter || status(read) != "True True True " {
		t.Errorf("after a heartbeat: %s, looked at again in %s", status(read), again)
	}
	now.SetTime(now.Now().Add(silentAfter))
	if again, read := look("n"); again != 0 || status(read) != "True Unknown Unknown " || condition.OfNode(read, g8s.ConditionAgentReady).Reason != g8s.ReasonAgentSilent {
		t.Errorf("after too long: %s, looked at again in %s", status(read), again)
	}
	for range 2 {
		now.SetTime(now.Now().Add(silentAfter))
		look("n")
		if again, read := look("left"); again != 0 || status(read) != "False " {
			t.Errorf("a node that is to have no agent: %s, looked at again in %s", status(read), again)
		}
	}
	if len(told.Events) != 1 {
		t.Errorf("told %d times, want once", len(told.Events))
	}
}
