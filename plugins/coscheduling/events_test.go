package coscheduling

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
	"g8s.host/gpu-scheduler/test/fixture"
)

func podInfo(t *testing.T, pod *corev1.Pod) fwk.PodInfo {
	t.Helper()
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestMembersWaitForWhatMakesRoom(t *testing.T) {
	l := newLab(t, 1)
	events, err := l.EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.group("g", map[string]any{"minMember": int64(2)})
	waiting := l.member("waiting", func(p *corev1.Pod) { p.Labels[names.LabelPool] = "default" })
	sibling := l.member("sibling")
	running := fixture.Pod("x").GPUs(1).Obj()
	running.Spec.NodeName = "n0"
	there := fixture.Node("n0").GPUs(8, "T4").Obj()
	tainted := fixture.Node("tainted").GPUs(8, "T4").Obj()
	tainted.Spec.Taints = []corev1.Taint{{Key: "others", Effect: corev1.TaintEffectNoSchedule}}
	l.adds(tainted)
	with := func(change func(*corev1.Node)) *corev1.Node { n := there.DeepCopy(); change(n); return n }
	tests := map[string]struct {
		event       fwk.ClusterEvent
		before, now any
		wakes       bool
	}{
		"a pod has left its node":               {fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}, running, nil, true},
		"a pod that had none was deleted":       {fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}, fixture.Pod("y").Obj(), nil, false},
		"a sibling gave up its place":           {fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}, placed(sibling, "n0"), nil, false},
		"a sibling was deleted":                 {fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}, placed(renamedTo(sibling, "gone"), "n0"), nil, true},
		"a member of another gang gave it up":   {fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}, placed(l.member("h", func(p *corev1.Pod) { p.Labels[names.LabelPodGroup] = "h" }), "n0"), nil, true},
		"a pod asks for less":                   {fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodScaleDown}, running, placed(fixture.Pod("x").Obj(), "n0"), true},
		"a pod has another label":               {fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel}, running, labeledWith(running, "x", "y"), false},
		"a pod has left a node it cannot go to": {fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}, placed(running, "tainted"), nil, false},
		"a node it cannot go to has come":       {fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, tainted, false},
		"the pod itself tolerates more":         {fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodToleration}, waiting, waiting, true},
		"the pod itself takes other GPUs":       {fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}, waiting, annotatedWith(waiting, names.AnnotationGPUTypes, "T4"), true},
		"the pod itself is told why it waits":   {fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}, waiting, annotatedWith(waiting, "x", "y"), false},
		"a sibling takes other GPUs":            {fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}, sibling, annotatedWith(sibling, names.AnnotationGPUTypes, "T4"), false},
		"a sibling has come":                    {fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Add}, nil, sibling, true},
		"another pod has come":                  {fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Add}, nil, running, false},
		"a node has come":                       {fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, there, true},
		"a node of another pool has come":       {fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add}, nil, fixture.Node("o").Pool("other").Obj(), false},
		"a node has more GPUs":                  {fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeAllocatable}, fixture.Node("n0").Obj(), there, true},
		"a node joined the pool":                {fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel}, fixture.Node("n0").Pool("other").GPUs(8, "T4").Obj(), there, true},
		"a node is ready again":                 {fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeTaint}, with(func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x"}} }), there, true},
		"a card is healthy again":               {fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeAnnotation}, with(func(n *corev1.Node) { n.Annotations = map[string]string{names.AnnotationInventory: "x"} }), there, true},
		"a node has an annotation of somebody":  {fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeAnnotation}, with(func(n *corev1.Node) { n.Annotations = map[string]string{"x": "y"} }), there, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			at := slices.IndexFunc(events, func(e fwk.ClusterEventWithHint) bool {
				return e.Event.Resource == tc.event.Resource && e.Event.ActionType&tc.event.ActionType != 0
			})
			if at < 0 {
				t.Fatal("members do not hear of it")
			}
			if got, err := events[at].QueueingHintFn(klog.Background(), waiting, tc.before, tc.now); err != nil || (got == fwk.Queue) != tc.wakes {
				t.Errorf("%v, %v; want it to wake the member: %t", got, err, tc.wakes)
			}
		})
	}
}

func placed(pod *corev1.Pod, node string) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Spec.NodeName = node
	return pod
}

func labeledWith(pod *corev1.Pod, key, value string) *corev1.Pod {
	pod = pod.DeepCopy()
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[key] = value
	return pod
}

func annotatedWith(pod *corev1.Pod, key, value string) *corev1.Pod {
	pod = pod.DeepCopy()
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[key] = value
	return pod
}

func renamedTo(pod *corev1.Pod, name string) *corev1.Pod {
	pod = pod.DeepCopy()
	pod.Name, pod.UID = name, "other"
	return pod
}

// TestAPodGroupThatChangesWakesItsMembers, all of them at first, and then one each time, and all when they have rested: who changes it all the
// time has not all of them tried.
func TestAPodGroupThatChangesWakesItsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 2)
		for _, name := range []string{"a", "b", "c"} {
			l.member(name)
		}
		l.member("running", boundTo("n0"))
		l.member("other-owner", ownedBy("other"))
		changes := []struct {
			members int64
			after   time.Duration
			woken   int
		}{{2, 0, 4}, {2, 0, 0}, {3, 10 * time.Millisecond, 1}, {2, 100 * time.Millisecond, 4}}
		var before *podgroup.Group
		for i, change := range changes {
			time.Sleep(change.after)
			l.forget()
			l.group("g", map[string]any{"minMember": change.members})
			now := l.groups.GetGroup(mustGroup(l.member("a")))
			l.groupChanged(before, now)
			if tried := l.tried(); len(tried) != change.woken || slices.Contains(tried, "ns/running") {
				t.Errorf("change %d wakes %v, want %d that wait", i, tried, change.woken)
			}
			before = now
		}
		time.Sleep(time.Hour)
	})
}

// TestOneMemberIsTriedForAll when there may be room, so that who submits a gang of thousands has no thousands of pods tried.
func TestOneMemberIsTriedForAll(t *testing.T) {
	l := newLab(t, 1)
	l.group("g", map[string]any{"minMember": int64(3)})
	a, b, c := l.member("a"), l.member("b"), l.member("c")
	running := placed(fixture.Pod("x").Obj(), "n0")
	woken := func() (names string) {
		for _, pod := range []*corev1.Pod{a, b, c} {
			if got, _ := l.afterPodChange(klog.Background(), pod, running, nil); got == fwk.Queue {
				names += pod.Name
			}
		}
		return names
	}
	if got := woken(); got != "abc" {
		t.Errorf("before any was tried, %q are woken, want all", got)
	}
	l.try(a)
	l.try(b)
	if got := woken(); got != "b" {
		t.Errorf("%q are woken, want the one that was turned away last", got)
	}
	l.must(l.pods.Delete(b))
	if got := woken(); got != "abc" {
		t.Errorf("when that one is gone, %q are woken, want all", got)
	}
	l.must(l.groups.PodGroups.GetIndexer().Delete(l.groups.GetGroup(mustGroup(a))))
	if got := woken(); got != "" {
		t.Errorf("without a PodGroup, %q are woken, want none: they wait for it", got)
	}
}

// TestAMemberThatFitsNowhereSpeaksForNobodyElse where the gang is whole without it: the others are tried themselves.
func TestAMemberThatFitsNowhereSpeaksForNobodyElse(t *testing.T) {
	for name, test := range map[string]struct {
		minMember int64
		wakes     fwk.QueueingHint
	}{
		"the gang can do without it": {2, fwk.Queue},
		"the gang needs it":          {3, fwk.QueueSkip},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 1)
			l.group("g", map[string]any{"minMember": test.minMember})
			scout, sibling := l.member("a"), l.member("b")
			l.member("c")
			if reason, _ := l.try(scout); reason == "" {
				t.Fatal("it begins without room")
			}
			for i := range 2 { // now there is room, but its own volume is elsewhere
				node := fixture.Node(fmt.Sprint("more", i)).GPUs(8, "T4").Obj()
				l.infos = append(l.infos, nodeInfo(node))
			}
			state := framework.NewCycleState()
			if _, status := l.PreFilter(t.Context(), state, scout, l.infos); !status.IsSuccess() {
				t.Fatal(status)
			}
			l.PostFilter(t.Context(), state, scout, nil)
			if got, _ := l.afterPodChange(klog.Background(), sibling, placed(fixture.Pod("x").Obj(), "n0"), nil); got != test.wakes {
				t.Errorf("a sibling hears %v, want %v", got, test.wakes)
			}
		})
	}
}

// TestWithoutAPodGroupNoPlaceIsKept: others have left one for a member, that keeps out all who are not of a higher priority, whether the
// PodGroup is deleted or cannot be read any more.
func TestWithoutAPodGroupNoPlaceIsKept(t *testing.T) {
	l := newLab(t, 2)
	l.group("g", map[string]any{"minMember": int64(2)})
	coming, other := l.member("coming", comingTo("n0"), neverPreempts), l.member("other", neverPreempts)
	group := l.groups.GetGroup(mustGroup(coming))
	l.must(l.groups.PodGroups.GetIndexer().Delete(group))
	l.groupGone(cache.DeletedFinalStateUnknown{Key: "ns/g", Obj: group})
	if diff := cmp.Diff([]string{"ns/coming"}, l.tried()); diff != "" {
		t.Errorf("tried (-want +got):\n%s", diff)
	}
	if !l.PreEnqueue(l.Context(), coming).IsSuccess() {
		t.Error("it is kept from being tried")
	}
	result, _ := l.PostFilter(l.Context(), framework.NewCycleState(), coming, nil)
	if result == nil || result.NominatingMode != fwk.ModeOverride || result.NominatedNodeName != "" {
		t.Errorf("its nomination does not end: %+v", result)
	}
	if result, _ := l.PostFilter(l.Context(), framework.NewCycleState(), other, nil); result != nil {
		t.Errorf("one that was to come nowhere: %+v", result)
	}
}

// TestRoomInThePoolOfAnyRoleWakesAGang: the members of a gang may be in several pools. When a pod leaves a node of one of them, a member is woken
// that tries for all, whichever member was turned away last. Else the gang waits beside free nodes for the flush of every five minutes.
func TestRoomInThePoolOfAnyRoleWakesAGang(t *testing.T) {
	of := func(pool string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Labels[names.LabelPool] = pool }
	}
	for _, scout := range []string{"launcher", "worker"} {
		for leaves, pool := range []string{"small", "large"} {
			l := newLab(t, 2)
			l.infos[0].Node().Labels[names.LabelPool], l.infos[1].Node().Labels[names.LabelPool] = "small", "large"
			l.group("g", map[string]any{"minMember": int64(2)})
			gone := []*corev1.Pod{l.running(0, "on-small", 5), l.running(1, "on-large", 5)}
			members := map[string]*corev1.Pod{"launcher": l.member("launcher", of("small")), "worker": l.member("worker", of("large"))}
			if _, _, reason := l.aim(members[scout]); reason == "" {
				t.Fatal("it has room")
			}
			l.must(l.pods.Delete(gone[leaves]))
			woken := 0
			for _, pod := range members {
				hint, err := l.afterPodChange(klog.Background(), pod, gone[leaves], nil)
				l.must(err)
				if hint == fwk.Queue {
					woken++
				}
			}
			if woken == 0 {
				t.Errorf("%s was turned away last: no member is woken when a pod leaves pool %s", scout, pool)
			}
			added, woken := fixture.Node("new").Pool(pool).GPUs(8, "T4").Obj(), 0
			for _, pod := range members {
				hint, err := l.afterNodeChange(klog.Background(), pod, nil, added)
				l.must(err)
				if hint == fwk.Queue {
					woken++
				}
			}
			if woken == 0 {
				t.Errorf("%s was turned away last: no member is woken when a node comes to pool %s", scout, pool)
			}
		}
	}
}
