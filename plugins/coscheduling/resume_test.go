package coscheduling

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// TestWhoLeftWhenItWasToldComesBackFirst, whoever has come since, and each but once.
func TestWhoLeftWhenItWasToldComesBackFirst(t *testing.T) {
	l, _ := newPolite(t)
	l.changesOnNode(0, ownedBy("evicted"))
	l.tries("m0")
	l.changes("asks", func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
		pod.DeletionTimestamp = ptr.To(metav1.NewTime(noon))
	})
	before := func(name string, uid types.UID) bool {
		made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
		ownedBy(uid)(made)
		other := made.DeepCopy()
		other.Name, other.UID, other.OwnerReferences = "a-other", "a-other", nil
		l.PreEnqueue(t.Context(), made)
		l.PreEnqueue(t.Context(), other)
		return l.Less(queued(t, made, noon.Add(time.Hour)), queued(t, other, noon))
	}
	if !before("again", "evicted") {
		t.Error("one that came later is tried before one that comes back")
	}
	if before("new", "somebody") {
		t.Error("one that was not evicted comes first")
	}
	again := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "again", UID: "again"}}
	ownedBy("evicted")(again)
	l.must(l.pods.Add(again))
	l.changes("again", boundTo("n0"))
	if before("more", "evicted") {
		t.Error("one comes first when the one that left is back")
	}
	if left := slices.Collect(maps.Keys(l.resumptions.of)); len(left) > 0 || l.resumptions.queued.Len() > 0 {
		t.Errorf("%v are kept", left)
	}
}
