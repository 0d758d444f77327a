package coscheduling

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
)

// TestAMemberThatStillEndsIsAwaited: the one that is made again may take its place, if its node is open to it.
func TestAMemberThatStillEndsIsAwaited(t *testing.T) {
	for name, tc := range map[string]struct {
		closed bool
		change func(l *lab) // after the member was deleted
		ends   bool
	}{
		"on a node that is open":   {change: func(*lab) {}},
		"until it is gone":         {change: func(l *lab) { l.must(l.pods.Delete(l.pod("lost"))) }, ends: true},
		"on a node that is closed": {closed: true, change: func(*lab) {}, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2)
			l.answers()
			now := noon.Add(time.Hour)
			l.now = func() time.Time { return now }
			l.group("g", map[string]any{"minMember": int64(2)})
			l.podChanged(l.member("a", bornAt(0), boundAfter(5, "n0")))
			lost := l.member("lost", bornAt(0), boundAfter(5, "n1"))
			l.podChanged(lost)
			for i, pod := range []string{"a", "lost"} {
				l.infos[i] = nodeInfo(l.infos[i].Node(), l.pod(pod))
			}
			if tc.closed {
				node := l.infos[1].Node().DeepCopy()
				node.Spec.Taints = []corev1.Taint{{Key: "example.com/service", Effect: corev1.TaintEffectNoExecute}}
				l.must(l.store.Update(node))
			}
			gone := lost.DeepCopy()
			gone.DeletionTimestamp = &metav1.Time{Time: now.Add(25 * time.Second)}
			l.must(l.pods.Update(gone))
			l.podChanged(gone)
			tc.change(l)
			if ends := l.ends("a", l.member("again", bornAt(3601)), &now); ends != tc.ends {
				t.Errorf("the rest is ended: %t, want %t", ends, tc.ends)
			}
		})
	}
}

// TestAProcessThatStartsLaterAwaitsAMember that was lost before, and still ends: the pods alone say so, however long the gang ran.
func TestAProcessThatStartsLaterAwaitsAMember(t *testing.T) {
	for name, tc := range map[string]struct {
		closed bool // the node of the lost member
		before bool // the loss is seen before the PodGroup is
		after  func(l *lab, lost *corev1.Pod)
		ends   bool
	}{
		"that still ends on an open node":          {after: func(*lab, *corev1.Pod) {}},
		"that still ends on a closed node":         {closed: true, after: func(*lab, *corev1.Pod) {}, ends: true},
		"that has ended since":                     {after: func(l *lab, lost *corev1.Pod) { l.must(l.pods.Delete(lost)); l.podGone(lost) }, ends: true},
		"that has ended since, of a later group":   {before: true, after: func(l *lab, lost *corev1.Pod) { l.must(l.pods.Delete(lost)); l.podGone(lost) }, ends: true},
		"whose grace period is longer than others": {after: func(l *lab, lost *corev1.Pod) { lost.DeletionGracePeriodSeconds = ptr.To(int64(55)) }, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2)
			l.answers()
			now := noon.Add(time.Hour)
			l.now = func() time.Time { return now }
			if !tc.before {
				l.group("g", map[string]any{"minMember": int64(2)})
			}
			first := l.member("a", bornAt(0), boundAfter(5, "n0"), planned("a/2"))
			lost := l.member("lost", bornAt(0), boundAfter(5, "n1"), planned("a/2"), func(pod *corev1.Pod) {
				pod.DeletionTimestamp = &metav1.Time{Time: now.Add(25 * time.Second)}
			})
			for i, pod := range []*corev1.Pod{first, lost} {
				l.infos[i] = nodeInfo(l.infos[i].Node(), pod)
				l.podChanged(pod)
			}
			if tc.before {
				l.group("g", map[string]any{"minMember": int64(2)})
				l.groupChanged(nil, l.groups.GetGroup(mustGroup(first)))
			}
			if tc.closed {
				node := l.infos[1].Node().DeepCopy()
				node.Spec.Taints = []corev1.Taint{{Key: "example.com/service", Effect: corev1.TaintEffectNoExecute}}
				l.must(l.store.Update(node))
			}
			tc.after(l, lost)
			if ends := l.ends("a", l.member("again", bornAt(3601)), &now); ends != tc.ends {
				t.Errorf("the rest is ended: %t, want %t", ends, tc.ends)
			}
		})
	}
}

// TestALossThatWasMadeGoodEndsNothing: a process that starts later sees one that still ends on a dead node, and was made again long ago. Another one
// has ended by itself since, and finds no room.
func TestALossThatWasMadeGoodEndsNothing(t *testing.T) {
	leaves := func(pod *corev1.Pod) {
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: noon.Add(3500 * time.Second)}, ptr.To(int64(30))
	}
	for name, tc := range map[string]struct {
		other bool // which did not end by itself
		after func(l *lab, lost *corev1.Pod)
		ends  bool
	}{
		"while it ends":                {after: func(*lab, *corev1.Pod) {}},
		"once it has ended":            {after: func(l *lab, lost *corev1.Pod) { l.must(l.pods.Delete(lost)); l.podGone(lost) }},
		"but another was deleted, too": {other: true, after: func(l *lab, lost *corev1.Pod) { l.must(l.pods.Delete(lost)); l.podGone(lost) }, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 4)
			l.answers()
			now := l.keepsClock()
			*now = noon.Add(time.Hour)
			l.group("g", map[string]any{"minMember": int64(4)})
			lost := l.member("lost", bornAt(0), boundAfter(5, "n0"), planned("a/4"), leaves)
			members := []*corev1.Pod{
				lost, l.member("made", bornAt(3480), boundAfter(3490, "n1"), planned("b/1")),
				l.member("a", bornAt(0), boundAfter(5, "n2"), planned("a/4")), l.member("b", bornAt(0), boundAfter(5, "n3"), planned("a/4")),
			}
			for i, pod := range members {
				l.infos[i] = nodeInfo(l.infos[i].Node(), pod)
			}
			if tc.other {
				members = append(members, l.member("other", bornAt(0), boundAfter(5, "n0"), planned("a/4"), leaves))
			}
			for _, pod := range members {
				l.podChanged(pod)
			}
			tc.after(l, lost)
			if ends := l.ends("a", l.member("again", bornAt(3601)), now); ends != tc.ends {
				t.Errorf("the rest is ended: %t, want %t", ends, tc.ends)
			}
		})
	}
}

// TestSiblingsWithPlacesExtendNoTime: when one of half a gang finds no place, those that got one in the same round give it up.
func TestSiblingsWithPlacesExtendNoTime(t *testing.T) {
	l := newLab(t, 3)
	l.answers()
	now := noon.Add(20 * time.Second)
	l.now = func() time.Time { return now }
	l.group("g", map[string]any{"minMember": int64(3)})
	first := l.member("a", bornAt(0), boundAfter(5, "n0"), planned("a/3"))
	l.podChanged(first)
	l.infos[0] = nodeInfo(l.infos[0].Node(), first)
	second, third := l.member("b", bornAt(0)), l.member("c", bornAt(0))
	var ended []string
	for range 2 {
		cs := framework.NewCycleState()
		if status, _ := l.Permit(t.Context(), cs, second, "n1"); !status.IsWait() {
			t.Fatal("the second does not wait for the third")
		}
		l.hold(second)
		ended = append(ended, func() []string { _, evicted := l.postFilter(framework.NewCycleState(), third); return evicted }()...)
		now = now.Add(phase.CompleteWithin + time.Millisecond)
	}
	if !slices.Equal(ended, []string{"a"}) {
		t.Errorf("%v end, want the one that is bound, once", ended)
	}
}
