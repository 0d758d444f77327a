package coscheduling

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/gang/partial"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
)

// bornAt is a pod that was made some seconds after noon, and boundAfter one that was bound then.
func bornAt(seconds int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.CreationTimestamp = metav1.NewTime(noon.Add(time.Duration(seconds) * time.Second))
	}
}

func boundAfter(seconds int, node string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.NodeName = node
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(noon.Add(time.Duration(seconds) * time.Second))}}
	}
}

// ends reports whether a member that is bound is ended while another one finds no room, and demands that it is not at once.
func (l *lab) ends(bound string, waiting *corev1.Pod, now *time.Time) bool {
	l.Helper()
	began, ended := *now, false
	for range 3 {
		cs, _, _ := l.aim(waiting)
		_, evicted := l.postFilter(cs, waiting)
		if ended = ended || slices.Contains(evicted, bound); ended && now.Sub(began) < phase.CompleteWithin {
			l.Fatalf("it ends after %s", now.Sub(began))
		}
		*now = now.Add(phase.CompleteWithin/2 + time.Millisecond)
	}
	return ended
}

// TestHalfAGangThatCannotBeCompletedEnds, after it was given a while, and no other gang does.
func TestHalfAGangThatCannotBeCompletedEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		// change makes it another case, before the second member comes.
		change func(l *lab, first *corev1.Pod)
		born   int // when the second member was made
		ends   bool
	}{
		"one that never was whole":              {after: 20 * time.Second, ends: true},
		"one that was whole, and lost a member": {after: 60 * time.Second, born: 30},
		"one that has run for long":             {after: partial.MaxLostRuntime + time.Minute},
		"one with more members than it takes":   {after: 20 * time.Second, change: func(l *lab, _ *corev1.Pod) { l.member("c", bornAt(0)) }},
		"one with a member that is held back": {after: 20 * time.Second, change: func(l *lab, _ *corev1.Pod) {
			l.member("c", func(pod *corev1.Pod) { pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "gate"}} })
		}},
		"one that does not say when it was bound": {after: 20 * time.Second, change: func(_ *lab, first *corev1.Pod) { first.Status.Conditions = nil }},
		"one that may have started with fewer, as its minimum was raised since": {after: 20 * time.Second, change: func(l *lab, _ *corev1.Pod) {
			l.group("g", map[string]any{"minMember": int64(2)}, func(group *unstructured.Unstructured) { group.SetGeneration(2) })
		}},
		"one whose PodGroup another has taken the place of": {after: 20 * time.Second, change: func(l *lab, _ *corev1.Pod) {
			l.group("g", map[string]any{"minMember": int64(2)}, func(group *unstructured.Unstructured) {
				group.SetGeneration(1)
				group.SetCreationTimestamp(metav1.NewTime(noon.Add(10 * time.Second)))
			})
		}},
		"one whose PodGroup is as it was": {after: 20 * time.Second, ends: true, change: func(l *lab, _ *corev1.Pod) {
			l.group("g", map[string]any{"minMember": int64(2)}, createdAtNoon, func(group *unstructured.Unstructured) { group.SetGeneration(1) })
		}},
		"one whose end has begun, and of which a member was made again": {after: 60 * time.Second, born: 30, ends: true, change: func(_ *lab, first *corev1.Pod) {
			first.Status.Conditions = append(first.Status.Conditions,
				corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: partial.ReleaseReason})
		}},
		"one that others leave for": {after: 20 * time.Second, change: func(l *lab, _ *corev1.Pod) {
			l.infos[1] = nodeInfo(l.infos[1].Node())
			l.running(1, "low", 1, ofPriority(-1))
		}},
		"one that others are asked again to leave for": {after: 20 * time.Second, change: func(l *lab, first *corev1.Pod) {
			g := gangOf(first, l.groups.GetGroup(mustGroup(first)))
			l.gangs.changeState(g, func(s *phase.Gang) {
				s.RecordEvictions(l.now())
				for s.WriteBackoff() < phase.BaseBackoff {
					s.BackOffWrites(l.now())
				}
			})
		}},
		"one that a disruption budget protects": {after: 20 * time.Second, change: func(l *lab, _ *corev1.Pod) { l.budget("a", 0) }},
		"one of which some have succeeded already": {after: 20 * time.Second, change: func(l *lab, _ *corev1.Pod) {
			done := l.member("done")
			l.must(l.pods.Delete(done))
			l.must(l.finished.Members.Add(done))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2)
			l.answers()
			now := noon.Add(tc.after)
			l.now = func() time.Time { return now }
			l.group("g", map[string]any{"minMember": int64(2)})
			first := l.member("a", bornAt(0), boundAfter(5, "n0"), func(pod *corev1.Pod) { pod.Labels["app"] = "a" })
			l.infos[0] = nodeInfo(l.infos[0].Node(), first)
			l.running(1, "equal", 1)
			if tc.change != nil {
				tc.change(l, first)
			}
			second := l.member("b", bornAt(tc.born))
			if ends := l.ends("a", second, &now); ends != tc.ends {
				t.Errorf("half of the gang is ended: %t, want %t", ends, tc.ends)
			}
		})
	}
}

// TestAMemberThatEndsByItselfIsNotLost: the informer leaves ended pods out, so it is reported as deleted, as it was before.
func TestAMemberThatEndsByItselfIsNotLost(t *testing.T) {
	l := newLab(t, 2)
	l.answers()
	now := noon.Add(time.Hour)
	l.now = func() time.Time { return now }
	l.group("g", map[string]any{"minMember": int64(2)})
	first, done := l.member("a", bornAt(0), boundAfter(5, "n0")), l.member("done", bornAt(0), boundAfter(5, "n1"))
	l.podChanged(first)
	l.podChanged(done)
	l.must(l.pods.Delete(done))
	l.podGone(done)
	l.infos[0] = nodeInfo(l.infos[0].Node(), first)
	l.running(1, "equal", 1)
	if l.ends("a", l.member("again", bornAt(3601)), &now) {
		t.Error("the rest is ended")
	}
}

// TestAGangThatLosesAMemberIsHalf, however whole it was and for how long, and whatever took the member: the rest computes nothing. One that still has
// as many as it takes works on.
func TestAGangThatLosesAMemberIsHalf(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string // of its leaving, "" for none
		least  int64
		back   bool // the member comes back, and is lost again, before the gang is looked at
		ends   bool
	}{
		"preempted":                            {reason: corev1.PodReasonPreemptionByScheduler, least: 2, ends: true},
		"preempted, and the others are enough": {reason: corev1.PodReasonPreemptionByScheduler, least: 1},
		"preempted, made again, and deleted":   {reason: corev1.PodReasonPreemptionByScheduler, least: 2, back: true, ends: true},
		"evicted by others":                    {reason: "EvictionByEvictionAPI", least: 2, ends: true},
		"evicted for a taint":                  {reason: "DeletionByTaintManager", least: 2, ends: true},
		"deleted by its user":                  {least: 2, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2)
			l.answers()
			now := noon.Add(time.Hour)
			l.now = func() time.Time { return now }
			l.group("g", map[string]any{"minMember": tc.least})
			first, lost := l.member("a", bornAt(0), boundAfter(5, "n0")), l.member("lost", bornAt(0), boundAfter(5, "n1"))
			l.podChanged(first)
			l.podChanged(lost)
			gone := lost.DeepCopy()
			gone.DeletionTimestamp = &metav1.Time{Time: now}
			if tc.reason != "" {
				gone.Status.Conditions = append(gone.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: tc.reason})
			}
			l.podChanged(gone)
			l.must(l.pods.Delete(gone))
			l.podGone(gone)
			l.podChanged(first) // as its kubelet tells of it
			if tc.back {
				back := l.member("back", bornAt(3600), boundAfter(3600, "n1"))
				l.podChanged(back)
				l.must(l.pods.Delete(back))
				back.DeletionTimestamp = &metav1.Time{Time: now}
				l.podGone(back)
			}
			l.infos[0] = nodeInfo(l.infos[0].Node(), first)
			l.running(1, "equal", 1)
			if ends := l.ends("a", l.member("again", bornAt(3601)), &now); ends != tc.ends {
				t.Errorf("the rest is ended: %t, want %t", ends, tc.ends)
			}
		})
	}
}

// TestHalfAGangStaysHalf, once it was found to be, whatever happens to it before it is whole: nothing else would end it.
func TestHalfAGangStaysHalf(t *testing.T) {
	for name, change := range map[string]func(l *lab, waiting *corev1.Pod) *corev1.Pod{
		"a member that waits is deleted, and made again": func(l *lab, waiting *corev1.Pod) *corev1.Pod {
			l.must(l.pods.Delete(waiting))
			return l.member("again", bornAt(22))
		},
		"a member that is bound goes with its node, and is made again": func(l *lab, waiting *corev1.Pod) *corev1.Pod {
			l.member("second", bornAt(0), boundAfter(5, "gone"))
			l.member("again", bornAt(22))
			return waiting
		},
		"its minimum is raised": func(l *lab, waiting *corev1.Pod) *corev1.Pod {
			l.group("g", map[string]any{"minMember": int64(4)}, func(group *unstructured.Unstructured) { group.SetGeneration(2) })
			l.member("more", bornAt(22))
			return waiting
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 3)
			l.answers()
			now := noon.Add(20 * time.Second)
			l.now = func() time.Time { return now }
			l.group("g", map[string]any{"minMember": int64(3)})
			for i, name := range []string{"first", "second"} {
				pod := l.member(name, bornAt(0), boundAfter(5, fmt.Sprint("n", i)))
				l.infos[i] = nodeInfo(l.infos[i].Node(), pod)
			}
			l.running(2, "equal", 1)
			waiting := l.member("waiting", bornAt(0))
			cs, _, _ := l.aim(waiting)
			if _, evicted := l.postFilter(cs, waiting); evicted != nil {
				t.Fatalf("%v end at once", evicted)
			}
			now = now.Add(phase.CompleteWithin + time.Second)
			waiting = change(l, waiting)
			cs, _, _ = l.aim(waiting)
			if _, evicted := l.postFilter(cs, waiting); !slices.Contains(evicted, "first") {
				t.Errorf("%v end", evicted)
			}
		})
	}
}

// TestAGangThatWasWholeIsHalfNoMore, though it was found to be before: once the API server says that all are bound. A place alone does not make it
// whole, as its Binding may be refused.
func TestAGangThatWasWholeIsHalfNoMore(t *testing.T) {
	for _, isBound := range []bool{true, false} {
		t.Run(fmt.Sprint("bound: ", isBound), func(t *testing.T) { wasWhole(t, isBound) })
	}
}

// wasWhole has the second member of a gang find a place and be gone again, and demands that the first ends unless the second was bound.
func wasWhole(t *testing.T, isBound bool) {
	l := newLab(t, 2)
	l.answers()
	now := noon.Add(20 * time.Second)
	l.now = func() time.Time { return now }
	l.group("g", map[string]any{"minMember": int64(2)})
	l.podChanged(l.member("a", bornAt(0), boundAfter(5, "n0")))
	l.running(1, "equal", 1)
	waiting := l.member("b", bornAt(0))
	cs, _, _ := l.aim(waiting)
	l.postFilter(cs, waiting)
	l.Permit(t.Context(), cs, waiting, "n1")
	if isBound {
		l.podChanged(l.member("b", bornAt(0), boundAfter(21, "n1")))
	}
	l.gangs.forgetPod(waiting.UID)
	l.must(l.pods.Delete(waiting))
	again, ended := l.member("again", bornAt(22)), false
	for range 3 {
		now = now.Add(phase.CompleteWithin)
		cs, _, _ := l.aim(again)
		_, evicted := l.postFilter(cs, again)
		ended = ended || slices.Contains(evicted, "a")
	}
	if ended == isBound {
		t.Errorf("the rest is ended: %t", ended)
	}
}

// TestHalfAGangEndsWhateverItTolerates: those that are bound wait for nobody in Permit, whose time would be over some time.
func TestHalfAGangEndsWhateverItTolerates(t *testing.T) {
	l := newLab(t, 2)
	l.answers()
	l.args.tolerance = 50
	now := noon.Add(20 * time.Second)
	l.now = func() time.Time { return now }
	l.group("g", map[string]any{"minMember": int64(2)})
	l.member("a", bornAt(0), boundAfter(5, "n0"))
	l.running(1, "equal", 1)
	waiting := l.member("b", bornAt(0))
	var evicted []string
	for range 3 {
		cs, _, _ := l.aim(waiting)
		_, some := l.postFilter(cs, waiting)
		evicted = append(evicted, some...)
		now = now.Add(phase.CompleteWithin/2 + time.Millisecond)
	}
	if !slices.Contains(evicted, "a") {
		t.Errorf("%v end", evicted)
	}
}

// TestPodsThatNobodyMakesAgainAreNotEnded: a gang of pods without a controller would never be whole again.
func TestPodsThatNobodyMakesAgainAreNotEnded(t *testing.T) {
	l := newLab(t, 1)
	group := &podgroup.Group{MinMember: 2}
	l.now = func() time.Time { return noon.Add(20 * time.Second) }
	for _, owned := range []bool{true, false} {
		m := &placement.Members{Bound: 1, Placed: []*corev1.Pod{l.member("a", bornAt(0), boundAfter(5, "n0"))}, Waiting: []*corev1.Pod{l.member("b", bornAt(0))}}
		if !owned {
			m.Placed[0].OwnerReferences = nil
		}
		if got := l.isPartiallyBound(gang{owner: types.UID(fmt.Sprint(owned))}, group, m, m.Placed); got != owned {
			t.Errorf("with a controller %t: half a gang that ends: %t", owned, got)
		}
	}
}
