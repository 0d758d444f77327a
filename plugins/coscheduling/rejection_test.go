package coscheduling

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/rejection"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

const antiAffinity = "node(s) didn't match pod anti-affinity rules"

// keptOut begins a gang of three on two nodes, of which another plugin keeps the third out, and returns its members.
func keptOut(l *lab) (pods []*corev1.Pod) {
	l.Helper()
	l.group("g", map[string]any{"minMember": int64(3)})
	for i := range 3 {
		pods = append(pods, l.member(fmt.Sprint("m", i), ofApp("small", 2)))
	}
	l.outside(pods)
	return pods
}

// outside has a gang begin, of which another plugin keeps the last member out.
func (l *lab) outside(pods []*corev1.Pod) (told string) {
	l.Helper()
	return l.outsideBy(pods, l.refusedBy(antiAffinity))
}

// outsideBy is outside with what all nodes say of the last member.
func (l *lab) outsideBy(pods []*corev1.Pod, refused fwk.NodeToStatusReader) (told string) {
	l.Helper()
	for i, pod := range pods {
		if !l.PreEnqueue(l.Context(), pod).IsSuccess() && i == len(pods)-1 {
			l.Fatalf("%s is kept from the queue", pod.Name)
		}
	}
	last := len(pods) - 1
	for _, pod := range pods[:last] {
		if why, waits := l.try(pod); !waits {
			l.Fatalf("%s does not begin: %s", pod.Name, why)
		}
	}
	cs, _, why := l.aim(pods[last])
	if why != "" {
		l.Fatalf("the last one does not begin: %s", why)
	}
	_, status := l.PostFilter(l.Context(), cs, pods[last], refused)
	return status.Message()
}

// refusedBy is that all nodes refuse a pod, for one reason.
func (l *lab) refusedBy(why string) fwk.NodeToStatusReader {
	refused := framework.NewDefaultNodeToStatus()
	for _, info := range l.infos {
		refused.Set(info.Node().Name, fwk.NewStatus(fwk.Unschedulable, why).WithPlugin("InterPodAffinity"))
	}
	return refused
}

// isKept reports whether a member is kept from the queue.
func (l *lab) isKept(pod *corev1.Pod) bool { return !l.PreEnqueue(l.Context(), pod).IsSuccess() }

// TestAGangThatAnotherPluginKeepsOutIsTriedLessAndLess: one that affinity keeps out was tried without end, since its members woke each
// other up.
func TestAGangThatAnotherPluginKeepsOutIsTriedLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, 2)
		pods := keptOut(l)
		for _, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60, 60} {
			l.forget()
			time.Sleep(wait*time.Second - time.Millisecond)
			for _, pod := range pods {
				if !l.isKept(pod) {
					t.Fatalf("%s is tried before %d s are over", pod.Name, wait)
				}
			}
			if tried := l.tried(); len(tried) > 0 {
				t.Fatalf("%v are tried before %d s are over", tried, wait)
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			if tried := l.tried(); len(tried) != 1 {
				t.Fatalf("%v are tried after %d s, want one for all", tried, wait)
			}
			l.outside(pods)
		}
	})
}

// TestAllMembersAreToldTheSame of what keeps one out, whenever they are asked.
func TestAllMembersAreToldTheSame(t *testing.T) {
	l := newLab(t, 2)
	now := l.keepsClock()
	pods := keptOut(l)
	want := reason.GangOutside.Text.FormatText("2 " + antiAffinity)
	for round := range 3 {
		for _, held := range l.held {
			if held.refused != want {
				t.Errorf("round %d: %s is told %q, want %q", round, held.pod.Name, held.refused, want)
			}
		}
		for _, pod := range pods {
			if _, _, why := l.aim(pod); why != want {
				t.Errorf("round %d: %s is told %q meanwhile, want %q", round, pod.Name, why, want)
			}
		}
		*now = now.Add(phase.BaseBackoff)
		l.held = nil
		if told := l.outside(pods); told != want {
			t.Errorf("round %d: the last one is told %q, want %q", round, told, want)
		}
	}
}

// TestWhatHasAGangTriedSoonThatIsKeptOut: a change of the cluster by which it may be let in, and not that members, or those of another such gang, give up their places.
func TestWhatHasAGangTriedSoonThatIsKeptOut(t *testing.T) {
	added := fixture.Node("n9").GPUs(8, "T4").Obj()
	for name, tc := range map[string]struct {
		news func(l *lab, pod *corev1.Pod) (fwk.QueueingHint, error)
		soon bool
	}{
		"a node comes": {soon: true, news: func(l *lab, pod *corev1.Pod) (fwk.QueueingHint, error) {
			return l.afterNodeChange(klog.Background(), pod, nil, added)
		}},
		"a pod leaves that was in the way": {soon: true, news: func(l *lab, pod *corev1.Pod) (fwk.QueueingHint, error) {
			gone := l.running(0, "gone", 1, repelling("app", "small", corev1.LabelHostname))
			l.must(l.pods.Delete(gone))
			return l.afterPodChange(klog.Background(), pod, gone, nil)
		}},
		"another pod leaves": {news: func(l *lab, pod *corev1.Pod) (fwk.QueueingHint, error) {
			gone := l.running(0, "gone", 1)
			l.must(l.pods.Delete(gone))
			return l.afterPodChange(klog.Background(), pod, gone, nil)
		}},
		"a sibling gives up its place": {news: func(l *lab, pod *corev1.Pod) (fwk.QueueingHint, error) {
			assumed := l.pod("m1").DeepCopy()
			assumed.Spec.NodeName = "n0"
			return l.afterPodChange(klog.Background(), pod, assumed, nil)
		}},
		"a member of another gang gives up its place": {news: func(l *lab, pod *corev1.Pod) (fwk.QueueingHint, error) {
			assumed := l.member("other", ownedBy("other")).DeepCopy()
			assumed.Spec.NodeName = "n0"
			assumed.Labels["scheduling.x-k8s.io/pod-group"] = "h"
			return l.afterPodChange(klog.Background(), pod, assumed, nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2)
			now := l.keepsClock()
			pods := keptOut(l)
			for range 6 { // a minute by now
				*now = now.Add(phase.BaseBackoff)
				l.held = nil
				l.outside(pods)
			}
			if hint, err := tc.news(l, pods[2]); err != nil || hint != fwk.QueueSkip {
				t.Errorf("it is tried at once: %v, %v", hint, err)
			}
			*now = now.Add(phase.MinRejectionBackoff)
			if soon := !l.isKept(pods[2]); soon != tc.soon {
				t.Errorf("it is tried soon: %t", soon)
			}
			if hint, err := tc.news(l, pods[2]); tc.soon && (err != nil || hint != fwk.Queue) {
				t.Errorf("it is not tried then: %v, %v", hint, err)
			}
		})
	}
}

// TestAGangThatFindsItsPlacesIsOutsideNoMore, and one that has begun goes on.
func TestAGangThatFindsItsPlacesIsOutsideNoMore(t *testing.T) {
	l := newLab(t, 3)
	now := l.keepsClock()
	pods := keptOut(l)
	*now = now.Add(2 * phase.FirstRejectionBackoff)
	for _, pod := range pods {
		if l.isKept(pod) {
			t.Fatalf("%s is kept from the queue", pod.Name)
		}
		if why, _ := l.try(pod); why != "" {
			t.Fatalf("%s is turned away: %s", pod.Name, why)
		}
	}
	g := gangOf(pods[0], l.groups.GetGroup(mustGroup(pods[0])))
	l.gangs.recordRejection(g, "again", nil, *now)
	if hold := l.gangs.stateOf(g).StartHold(*now, phase.Standing{}); !hold.Until.Equal(now.Add(phase.FirstRejectionBackoff)) {
		t.Errorf("the next rejection backs off until %s, want the first backoff again", hold.Until)
	}
}

// TestAMemberWithARoomOfItsOwnIsTried: what is kept for it others cannot have, until it gives that up.
func TestAMemberForWhichRoomIsKeptIsTried(t *testing.T) {
	l := newLab(t, 2)
	l.keepsClock()
	pods := keptOut(l)
	comingTo("n0")(pods[0])
	if l.isKept(pods[0]) {
		t.Error("it is kept from the queue, and keeps its node from others")
	}
	if _, _, why := l.aim(pods[0]); !strings.Contains(why, antiAffinity) {
		t.Errorf("it is told %q", why)
	}
}

// TestAMemberThatPostFilterIsNotAskedAbout keeps no places of the others: a plugin before this one has failed there.
func TestAMemberThatPostFilterIsNotAskedAbout(t *testing.T) {
	for _, asked := range []bool{false, true} {
		l := newLab(t, 2)
		l.group("g", map[string]any{"minMember": int64(3)})
		var pods []*corev1.Pod
		for i := range 3 {
			pods = append(pods, l.member(fmt.Sprint("m", i), ofApp("small", 2)))
		}
		for _, pod := range pods[:2] {
			l.try(pod)
		}
		refused := l.refusedBy("persistentvolumeclaim \"data\" not found")
		if asked {
			l.PostFilter(t.Context(), framework.NewCycleState(), pods[2], refused)
		}
		told := l.HandleMissedPostFilter(pods[2], refused)
		if (told == "") != asked || !asked && !strings.Contains(told, "not found") {
			t.Errorf("PostFilter is asked: %v: told %q", asked, told)
		}
		for _, held := range l.held {
			if !strings.Contains(held.refused, "persistentvolumeclaim \"data\" not found") {
				t.Errorf("PostFilter is asked: %v: %s waits on, told %q", asked, held.pod.Name, held.refused)
			}
		}
		if !l.isKept(pods[0]) {
			t.Errorf("PostFilter is asked: %v: the next attempt begins at once", asked)
		}
	}
}

// TestAGangThatIsKeptOutIsTriedWhenItsPodGroupChanges, such as to fewer members, which may have places.
func TestAGangThatIsKeptOutIsTriedWhenItsPodGroupChanges(t *testing.T) {
	l := newLab(t, 2)
	now := l.keepsClock()
	pods := keptOut(l)
	*now = now.Add(phase.BaseBackoff)
	l.held = nil
	l.outside(pods)
	name := mustGroup(pods[0])
	before := l.groups.GetGroup(name)
	l.group("g", map[string]any{"minMember": int64(2)})
	l.forget()
	l.groupChanged(before, l.groups.GetGroup(name))
	if tried := l.tried(); len(tried) != len(pods) || l.isKept(pods[0]) {
		t.Errorf("%v are tried, and kept from the queue: %v", tried, l.isKept(pods[0]))
	}
}

// TestThePackageOfRejectionsKnowsThisPlugin by its name: what it says of a node depends on that node alone.
func TestThePackageOfRejectionsKnowsThisPlugin(t *testing.T) {
	statuses := framework.NewDefaultNodeToStatus()
	for node, plugin := range map[string]string{"ours": Name, "ports": "NodePorts"} {
		statuses.Set(node, fwk.NewStatus(fwk.Unschedulable, "no").WithPlugin(plugin))
	}
	failed := rejection.Attempt{Pod: &corev1.Pod{}, AreAlike: true, Nodes: []string{"ours", "ports"}, Statuses: statuses}
	if rejection.NewBlock(failed, func(string) *corev1.Node { return nil }) == nil {
		t.Error("any event may matter, though only one plugin of Kubernetes depends on other pods")
	}
}
