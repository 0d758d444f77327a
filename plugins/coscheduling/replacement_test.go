package coscheduling

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/gang/queue"
	"g8s.host/gpu-scheduler/pkg/preemption"
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
	if left := slices.Collect(maps.Keys(l.resumptions.ByOwner)); len(left) > 0 {
		t.Errorf("%v are kept", left)
	}
}

// TestWhoComesBackIsFirstForTheNextLeader, too: by what lies on the pods, and for a day.
func TestWhoComesBackIsFirstForTheNextLeader(t *testing.T) {
	evicted := func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
		pod.DeletionTimestamp = ptr.To(metav1.NewTime(noon))
	}
	again := func(pod *corev1.Pod) {
		pod.Labels = nil
		ownedBy("evicted")(pod)
	}
	tests := map[string]struct {
		// before is what happens under the first leader, after under the second.
		before, after func(l *lab, now *time.Time)
		want          bool
	}{
		"it waited before the leader changed": {before: func(l *lab, _ *time.Time) {
			l.PreEnqueue(t.Context(), l.member("again", again))
		}, want: true},
		"it comes while the other one still leaves": {after: func(l *lab, _ *time.Time) { l.member("again", again) }, want: true},
		"it comes after another that came in its place": {before: func(l *lab, _ *time.Time) {
			l.PreEnqueue(t.Context(), l.member("first", again))
			l.PreEnqueue(t.Context(), l.member("again", again))
			l.goes("asks")
		}},
		"a day later": {before: func(l *lab, _ *time.Time) {
			l.PreEnqueue(t.Context(), l.member("again", again))
		}, after: func(_ *lab, now *time.Time) { *now = noon.Add(25 * time.Hour) }},
		"its user let it go": {before: func(l *lab, _ *time.Time) {
			l.changes("asks", func(pod *corev1.Pod) { pod.Status.Conditions = nil })
		}, after: func(l *lab, _ *time.Time) { l.member("again", again) }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l, now := newPolite(t)
			l.changesOnNode(0, ownedBy("evicted"))
			l.tries("m0")
			l.noticed()
			l.changes("asks", evicted)
			if tc.before != nil {
				tc.before(l, now)
			}
			l.noticed() // when all is written
			l.preemptions, l.resumptions, l.queuePositions, l.gangs = &preemption.Notices{}, &preemption.Resumptions{}, &queue.Positions{}, l.newGangs()
			l.TakeOver()
			if tc.after != nil {
				tc.after(l, now)
			}
			other := l.member("a-other", func(pod *corev1.Pod) { pod.Labels, pod.OwnerReferences = nil, nil })
			made := l.pod("again")
			l.PreEnqueue(t.Context(), made)
			l.PreEnqueue(t.Context(), other)
			if got := l.Less(queued(t, made, noon.Add(time.Hour)), queued(t, other, noon)); got != tc.want {
				t.Errorf("it comes before one that came earlier: %v, want %v", got, tc.want)
			}
			l.noticed()
		})
	}
}

// TestAStandbyKnowsWhoComesBackFirst: it has watched another leader tell pods to leave, and those that come are in its queue already.
func TestAStandbyKnowsWhoComesBackFirst(t *testing.T) {
	evicted := func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
		pod.DeletionTimestamp = ptr.To(metav1.NewTime(noon))
	}
	tests := map[string]struct {
		// sees is what the standby sees.
		sees func(l *lab)
		want bool
	}{
		"it leaves, and is gone":  {func(l *lab) { l.changes("asks", evicted); l.goes("asks") }, true},
		"it leaves, and is there": {func(l *lab) { l.changes("asks", evicted); l.changes("asks", saves) }, true},
		"it is gone at once": {func(l *lab) {
			l.changes("asks", func(pod *corev1.Pod) { evicted(pod); pod.DeletionTimestamp = nil })
			l.goes("asks")
		}, true},
		"its user has deleted it": {func(l *lab) {
			l.changes("asks", func(pod *corev1.Pod) { pod.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) })
			l.goes("asks")
		}, false},
		"another has come in its place": {func(l *lab) {
			l.changes("asks", evicted)
			l.goes("asks")
			l.member("first", func(pod *corev1.Pod) { pod.Labels = nil; ownedBy("evicted")(pod) })
			l.changes("first", boundTo("n0"))
		}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l, _ := newPolite(t)
			l.changesOnNode(0, ownedBy("evicted"))
			l.tries("m0")
			l.noticed() // by the other leader
			l.preemptions, l.resumptions, l.queuePositions, l.gangs = &preemption.Notices{}, &preemption.Resumptions{}, &queue.Positions{}, l.newGangs()
			tc.sees(l)
			again, other := l.member("again", func(pod *corev1.Pod) { pod.Labels = nil; ownedBy("evicted")(pod) }), l.member("a-other", func(pod *corev1.Pod) { pod.Labels, pod.OwnerReferences = nil, nil })
			l.PreEnqueue(t.Context(), again)
			l.PreEnqueue(t.Context(), other)
			if l.noticed(); len(again.Status.Conditions) > 0 || !whenLeft(l.pod("again")).IsZero() {
				t.Error("a standby writes on pods")
			}
			l.TakeOver()
			if got := l.Less(queued(t, again, noon.Add(time.Hour)), queued(t, other, noon)); got != tc.want {
				t.Errorf("it comes before one that came earlier: %v, want %v", got, tc.want)
			}
			l.changes("again", boundTo("n0"))
			more := l.member("more", func(pod *corev1.Pod) { pod.Labels = nil; ownedBy("evicted")(pod) })
			if l.isReplacement(more) {
				t.Error("two come back of one that left")
			}
			l.noticed()
		})
	}
}

// TestAsManyComeBackFirstAsHaveLeft: of a controller of which one pod left after a notice one pod is tried before all others of its
// priority ("as many as have left", docs/preemption.md), and not every pod that the controller has.
func TestAsManyComeBackFirstAsHaveLeft(t *testing.T) {
	l := newLab(t, 1)
	l.answers()
	l.TakeOver()
	left := l.member("left", boundTo("n0"), func(pod *corev1.Pod) { pod.Labels = nil })
	l.resumptions.RecordLeft(left, false, l.now())
	first := 0
	for i := range 20 {
		made := l.member(fmt.Sprint("made-", i), func(pod *corev1.Pod) { pod.Labels = nil })
		l.PreEnqueue(t.Context(), made)
		if turn, ok := l.queuePositions.PositionOf(made.UID); ok && turn.IsReplacement {
			first++
		}
	}
	for !l.Settled() {
		time.Sleep(time.Millisecond)
	}
	if first != 1 {
		t.Errorf("%d pods come before all others of their priority where 1 has left", first)
	}
}

// TestTheNextComesFirstWhereOneThatDidIsGone: it has not started, so the place of the one that left is still to be taken.
func TestTheNextComesFirstWhereOneThatDidIsGone(t *testing.T) {
	l := newLab(t, 1)
	l.answers()
	l.TakeOver()
	made := func(name string) *corev1.Pod { return l.member(name, func(pod *corev1.Pod) { pod.Labels = nil }) }
	l.resumptions.RecordLeft(made("left"), false, l.now())
	first := made("first")
	if !l.isReplacement(first) || l.isReplacement(made("second")) {
		t.Fatal("not the first alone comes first")
	}
	l.goes("first")
	if !l.isReplacement(made("third")) {
		t.Error("none comes in its place")
	}
}
