package coscheduling

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/gang/partial"
)

// TestMembersAreBoundByOnePlan, which says how many they are. One that comes beside them has none, and one that comes back its own.
func TestMembersAreBoundByOnePlan(t *testing.T) {
	l := newLab(t, 5)
	l.now = func() time.Time { return noon }
	l.group("g", map[string]any{"minMember": int64(3)})
	permit := func(pod *corev1.Pod) *framework.CycleState {
		cs := framework.NewCycleState()
		l.Permit(t.Context(), cs, pod, "n0")
		return cs
	}
	first, second := l.member("first"), l.member("second")
	early := permit(first)
	l.hold(first)
	l.rejectWaiting(gangOf(first, l.groups.GetGroup(mustGroup(first))), reasonLost)
	states := []*framework.CycleState{permit(first), permit(second)}
	for _, cs := range states {
		if plan := cycle.ReadPlanText(cs); plan != "" {
			t.Errorf("%q before all have a place", plan)
		}
	}
	states = append(states, permit(l.member("last")))
	const want = "2026-01-01T12:00:00Z/3"
	for i, cs := range states {
		if plan := cycle.ReadPlanText(cs); plan != want {
			t.Errorf("member %d is bound by the plan %q, want %q", i, plan, want)
		}
	}
	if plan := cycle.ReadPlanText(early); plan != "" {
		t.Errorf("%q for an attempt that was given up", plan)
	}
	if plan := cycle.ReadPlanText(permit(l.member("more"))); plan != "" {
		t.Errorf("%q for one that is more than it takes", plan)
	}
	for _, name := range []string{"last", "more"} {
		l.gangs.forgetPod(types.UID(name))
		l.must(l.pods.Delete(l.member(name)))
	}
	if plan := cycle.ReadPlanText(permit(l.member("again"))); !strings.HasSuffix(plan, "/1") {
		t.Errorf("%q for one that comes back", plan)
	}
}

// planned writes on a pod by which plan it was bound.
func planned(plan string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations = map[string]string{names.AnnotationGangPlan: plan} }
}

// TestAPartOfAPlanIsHalfAGang for a leader that has not followed the gang, whichever of its members are made again before that leader
// begins, and however many there are. One that was ever whole is not, as far as anybody can know.
func TestAPartOfAPlanIsHalfAGang(t *testing.T) {
	raised := func(group *unstructured.Unstructured) { group.SetGeneration(2) }
	two := map[string]any{"minMember": int64(2)}
	for name, tc := range map[string]struct {
		plan  string // by which the first member was bound
		after time.Duration
		// change is what else there is, before the other member comes that was made some seconds after noon.
		change func(l *lab, first *corev1.Pod)
		born   int
		ends   bool
	}{
		"the other one was made again":     {plan: "a/2", born: 30, ends: true},
		"there are more than it takes":     {plan: "a/2", ends: true, change: func(l *lab, _ *corev1.Pod) { l.member("c", bornAt(0)) }},
		"its PodGroup was changed":         {plan: "a/2", ends: true, change: func(l *lab, _ *corev1.Pod) { l.group("g", two, raised) }},
		"it started with fewer":            {plan: "a/1", change: func(l *lab, _ *corev1.Pod) { l.group("g", two, raised) }},
		"it has run for long":              {plan: "a/2", after: partial.MaxLostRuntime},
		"nobody knows when it was bound":   {plan: "a/2", born: 30, change: func(_ *lab, first *corev1.Pod) { first.Status.Conditions = nil }},
		"nobody knows by which plan":       {plan: "", born: 30},
		"what is written is no plan":       {plan: "a/many", born: 30},
		"a budget protects it":             {plan: "a/2", change: func(l *lab, _ *corev1.Pod) { l.budget("a", 0) }},
		"nobody would make it again":       {plan: "a/2", change: func(_ *lab, first *corev1.Pod) { first.OwnerReferences = nil }},
		"it was begun again, as a part":    {plan: "a/2", ends: true, change: func(l *lab, _ *corev1.Pod) { l.group("g", map[string]any{"minMember": int64(3)}); l.beside("c", "b/2") }},
		"it was completed by another plan": {plan: "a/2", change: func(l *lab, _ *corev1.Pod) { l.group("g", map[string]any{"minMember": int64(3)}); l.beside("c", "b/1") }},
		"one came when it seemed whole":    {plan: "a/3", ends: true, change: func(l *lab, _ *corev1.Pod) { l.group("g", map[string]any{"minMember": int64(3)}); l.beside("c", "") }},
		"its end has begun, long after": {plan: "a/2", after: partial.MaxLostRuntime, ends: true, change: func(_ *lab, first *corev1.Pod) {
			first.Status.Conditions = append(first.Status.Conditions,
				corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: partial.ReleaseReason})
		}},
		"a member is held back": {plan: "a/2", ends: true, change: func(l *lab, _ *corev1.Pod) {
			l.member("c", func(pod *corev1.Pod) { pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "gate"}} })
		}},
		"this process has seen it whole, and lose a member": {plan: "a/2", born: 30, ends: true, change: func(l *lab, first *corev1.Pod) {
			lost := l.member("lost", boundAfter(6, "n1"), planned("a/2"))
			l.podChanged(first)
			l.podChanged(lost)
			l.must(l.pods.Delete(lost))
			lost.DeletionTimestamp = &metav1.Time{Time: noon}
			l.podGone(lost)
		}},
		"this process has seen its job whole, which has started anew": {plan: "b/2", ends: true, change: func(l *lab, first *corev1.Pod) {
			before := []*corev1.Pod{l.member("x", boundAfter(1, "n0"), planned("a/2")), l.member("y", boundAfter(1, "n1"), planned("a/2"))}
			for _, pod := range before {
				l.podChanged(pod)
			}
			for _, pod := range before {
				l.must(l.pods.Delete(pod))
				l.podGone(pod)
			}
			l.podChanged(first)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2)
			l.answers()
			now := noon.Add(40*time.Second + tc.after)
			l.now = func() time.Time { return now }
			l.group("g", two)
			first := l.member("a", bornAt(0), boundAfter(5, "n0"), planned(tc.plan), func(pod *corev1.Pod) { pod.Labels["app"] = "a" })
			l.infos[0] = nodeInfo(l.infos[0].Node(), first)
			l.running(1, "equal", 1)
			if tc.change != nil {
				tc.change(l, first)
			}
			if ends := l.ends("a", l.member("b", bornAt(tc.born)), &now); ends != tc.ends {
				t.Errorf("half of the gang is ended: %t, want %t", ends, tc.ends)
			}
		})
	}
}

// beside is another member, which is bound on a node that is full.
func (l *lab) beside(name, plan string) {
	l.member(name, bornAt(0), boundAfter(7, "n1"), planned(plan))
}

// TestWhatAnotherSchedulerHasPlacedIsNotEnded, such as the launcher of a job: a gang of ours that waits for room is not half.
func TestWhatAnotherSchedulerHasPlacedIsNotEnded(t *testing.T) {
	l := newLab(t, 2)
	l.answers()
	now := noon.Add(20 * time.Second)
	l.now = func() time.Time { return now }
	l.group("g", map[string]any{"minMember": int64(2)})
	launcher := l.member("launcher", bornAt(0), boundAfter(5, "n0"), func(pod *corev1.Pod) { pod.Spec.SchedulerName = "another" })
	l.infos[0] = nodeInfo(l.infos[0].Node(), launcher)
	l.running(1, "equal", 1)
	if l.ends("launcher", l.member("worker", bornAt(0)), &now) {
		t.Error("the launcher is ended")
	}
}
