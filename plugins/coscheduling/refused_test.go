package coscheduling

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
)

// alone is a pod of no gang.
func alone(pod *corev1.Pod) { pod.Labels = map[string]string{} }

// says is a pod on which it is written why it has no place.
func says(message string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message}}
	}
}

// TestAPodThatWasRefusedEvictsNothingForAWhile: what refused its last place would refuse the next one, too. It is longer each time.
func TestAPodThatWasRefusedEvictsNothingForAWhile(t *testing.T) {
	l := newLab(t, 1)
	now := l.keepsClock()
	zombie := l.member("zombie", alone)
	assumed := zombie.DeepCopy()
	assumed.Spec.NodeName = "n0"
	wait := phase.BaseBackoff
	for round := range 8 {
		if why := l.PreemptionHoldReason(zombie, false); why != "" {
			t.Fatalf("round %d: it may not evict: %s", round, why)
		}
		told := l.RecordRefusal(assumed, "admission denied:\n\tno")
		for range 3 { // it is tried in free places meanwhile, which makes nothing worse
			*now = now.Add(wait/4 - time.Millisecond)
			if again := l.RecordRefusal(assumed, "admission denied: no"); again != told {
				t.Fatalf("round %d: told %q and then %q", round, told, again)
			}
		}
		if why := l.PreemptionHoldReason(zombie, false); why != told || !strings.Contains(why, "for "+wait.String()+": admission denied: no") {
			t.Errorf("round %d: told %q, and why is %q", round, told, why)
		}
		*now = now.Add(wait / 4 * 5)
		wait = min(2*wait, phase.MaxBackoff)
	}
	l.podChanged(l.member("zombie", alone, boundTo("n0")))
	if len(l.gangs.states) > 0 {
		t.Error("it is remembered though it has a place")
	}
}

// TestTheNextLeaderKnowsWhoWasRefused by what lies on the pod, also of members of a gang.
func TestTheNextLeaderKnowsWhoWasRefused(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){"alone": alone, "of a gang": func(*corev1.Pod) {}} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2)
			l.answers()
			now := l.keepsClock()
			l.group("g", map[string]any{"minMember": int64(2)})
			zombie := l.member("zombie", change)
			for range 2 { // the second wait is two minutes
				*now = now.Add(2 * phase.BaseBackoff)
				l.RecordRefusal(zombie, "no")
			}
			told := l.RecordRefusal(zombie, "no")
			next := newLab(t, 2)
			next.answers()
			next.now = l.now
			next.group("g", map[string]any{"minMember": int64(2)})
			next.running(0, "low", 5, ofPriority(-1))
			written := next.member("zombie", change, says("0/1 nodes are available: 1 Insufficient nvidia.com/gpu. "+told+", promised: 1 node(s) are kept"))
			sibling := next.member("sibling", change)
			if why := next.PreemptionHoldReason(written, false); why == "" {
				t.Error("it may evict for the next leader")
			}
			if name == "of a gang" {
				if _, evicted, _ := next.refuse(sibling); len(evicted) > 0 || !strings.Contains(next.told, "refused: ") {
					t.Errorf("%v are evicted for its gang, and %q is told", evicted, next.told)
				}
			}
			*now = now.Add(2*phase.BaseBackoff + time.Second)
			if why := next.PreemptionHoldReason(written, false); why != "" {
				t.Errorf("it may not evict when that is over: %s", why)
			}
			if told = next.RecordRefusal(written, "no"); !strings.Contains(told, "for 4m0s: no") {
				t.Errorf("the next wait is not longer than the one before: %s", told)
			}
		})
	}
}

// TestWhoChangesARefusedPodHasItTriedSoon, and not at once: else whatever changes it all the time had others evicted all the time.
func TestWhoChangesARefusedPodHasItTriedSoon(t *testing.T) {
	l := newLab(t, 1)
	now := l.keepsClock()
	zombie := l.member("zombie", alone)
	for range 4 { // eight minutes
		l.RecordRefusal(zombie, "no")
		*now = now.Add(phase.MaxBackoff)
	}
	l.RecordRefusal(zombie, "no")
	*now = now.Add(phase.BaseBackoff - time.Second)
	same, other := zombie.DeepCopy(), zombie.DeepCopy()
	same.Status.Message, other.Labels["team"] = "changed", "ok"
	l.handleRevision(zombie, other)
	if l.PreemptionHoldReason(zombie, false) == "" {
		t.Error("it may evict at once")
	}
	*now = now.Add(2 * time.Second)
	if l.PreemptionHoldReason(zombie, false) != "" {
		t.Error("it may not evict a minute after it was refused, though it was changed since")
	}
	l.RecordRefusal(zombie, "no")
	l.handleRevision(zombie, same)
	*now = now.Add(2 * phase.BaseBackoff)
	if l.PreemptionHoldReason(zombie, false) == "" {
		t.Error("a change of its status lets it evict")
	}
}

// TestAGangThatIsRefusedAfterPermitEvictedInVain, whichever plugin refuses a member: that all had places does not say that they start.
func TestAGangThatIsRefusedAfterPermitEvictedInVain(t *testing.T) {
	for name, rejects := range map[string]func(l *lab, pod *corev1.Pod){
		"a member at its binding":          func(l *lab, pod *corev1.Pod) { l.RecordRefusal(pod, "no") },
		"a member before it waits":         func(l *lab, pod *corev1.Pod) { l.RecordRefusal(pod, "no") },
		"the others as one does not come":  func(l *lab, pod *corev1.Pod) { l.RecordRejection(pod) },
		"a member, told by others first":   func(l *lab, pod *corev1.Pod) { l.RecordRejection(l.pod("b")); l.RecordRefusal(pod, "no") },
		"a member, and then by the others": func(l *lab, pod *corev1.Pod) { l.RecordRefusal(pod, "no"); l.RecordRejection(l.pod("b")) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newRacks(t, 2)
			l.answers()
			now := l.keepsClock()
			l.group("g", map[string]any{"minMember": int64(2)})
			pods := []*corev1.Pod{l.member("a"), l.member("b")}
			empty := slices.Clone(l.infos)
			for round, wait := range []time.Duration{phase.BaseBackoff, 2 * phase.BaseBackoff} {
				l.running(0, fmt.Sprint("low", round), 1, ofPriority(-1))
				if _, evicted, _ := l.refuse(pods[0]); len(evicted) != 1 {
					t.Fatalf("round %d: %v are evicted", round, evicted)
				}
				l.infos = slices.Clone(empty)
				if strings.Contains(name, "binding") {
					for _, pod := range pods {
						l.try(pod)
					}
				}
				rejects(l, pods[0])
				for _, pod := range pods {
					l.Unreserve(t.Context(), nil, pod, "n0")
				}
				l.running(0, fmt.Sprint("next", round), 1, ofPriority(-1))
				*now = now.Add(wait - time.Second)
				if _, evicted, _ := l.refuse(pods[0]); len(evicted) > 0 {
					t.Fatalf("round %d: %v are evicted after %s", round, evicted, wait-time.Second)
				}
				*now = now.Add(2 * time.Second)
				l.infos = slices.Clone(empty)
			}
		})
	}
}

// TestAGangThatWasRefusedAndStartsIsForgiven: what it evicts later is not in vain.
func TestAGangThatWasRefusedAndStartsIsForgiven(t *testing.T) {
	l := newRacks(t, 2)
	l.keepsClock()
	l.group("g", map[string]any{"minMember": int64(2)})
	pods := []*corev1.Pod{l.member("a"), l.member("b")}
	l.RecordRefusal(pods[0], "no")
	g := gangOf(pods[0], l.groups.GetGroup(mustGroup(pods[0])))
	l.podChanged(l.member("b", boundTo("n0")))
	if abstains, _ := l.gangs.stateOf(g).PreemptionHold(l.now()); !abstains {
		t.Fatal("half of it has a place")
	}
	l.podChanged(l.member("a", boundTo("n1")))
	if abstains, _ := l.gangs.stateOf(g).PreemptionHold(l.now()); abstains {
		t.Error("all of it has a place, and it evicts nothing for a minute")
	}
}

// TestHalfAGangEndsWhoseMemberIsRefused though there is room for it, and nothing of it starts before others may leave for it again: it would
// run for some seconds, end, and run again.
func TestHalfAGangEndsWhoseMemberIsRefused(t *testing.T) {
	l := newLab(t, 2)
	l.answers()
	now := l.keepsClock()
	l.group("g", map[string]any{"minMember": int64(2)})
	first := l.member("a", bornAt(0), boundAfter(5, "n0"))
	l.podChanged(first)
	zombie := l.member("zombie", bornAt(0))
	*now = now.Add(10 * time.Second)
	var evicted []string
	for range 3 {
		l.client.ClearActions()
		l.RecordRefusal(zombie, "no")
		evicted = append(evicted, l.evicted()...)
		*now = now.Add(phase.CompleteWithin/2 + time.Second)
	}
	if !slices.Equal(evicted, []string{"a"}) {
		t.Fatalf("%v end, want the half that has a place", evicted)
	}
	l.must(l.pods.Delete(first))
	l.podGone(first)
	again := l.member("again", bornAt(20))
	for _, pod := range []*corev1.Pod{zombie, again} {
		if _, _, why := l.aim(pod); !strings.Contains(why, "for 1m0s: no") {
			t.Errorf("%s is told %q", pod.Name, why)
		}
	}
	*now = now.Add(phase.BaseBackoff)
	if _, _, why := l.aim(again); why != "" {
		t.Errorf("it does not begin again: %s", why)
	}
}

// TestAMemberThatIsRefusedBesideAWholeGangKeepsNoOthers from what they may evict for.
func TestAMemberThatIsRefusedBesideAWholeGang(t *testing.T) {
	l := newLab(t, 3)
	l.keepsClock()
	l.group("g", map[string]any{"minMember": int64(2)})
	for i := range 2 {
		l.podChanged(l.member(fmt.Sprint("runs-", i), boundTo(fmt.Sprint("n", i))))
	}
	zombie := l.member("zombie", func(pod *corev1.Pod) { pod.Spec.Priority = ptr.To(int32(5)) })
	told := l.RecordRefusal(zombie, "no")
	for range 2 {
		if why := l.PreemptionHoldReason(zombie, false); why != told || told == "" {
			t.Errorf("it may evict: told %q, why is %q", told, why)
		}
		l.podChanged(l.pod("runs-0")) // such as its status
	}
	l.podChanged(l.member("zombie", boundTo("n2")))
	if why := l.PreemptionHoldReason(zombie, false); why != "" {
		t.Errorf("it has a place, and %s", why)
	}
}

// TestAPodThatIsGuaranteedItsGPUsAndRefused takes none back for a while: those who borrow them would leave for nothing.
func TestAPodThatIsGuaranteedItsGPUsAndRefused(t *testing.T) {
	l := newLab(t, 2)
	l.answers()
	now := l.keepsClock()
	l.running(0, "old", 60, inNamespace("theirs"))
	l.running(1, "new", 10, inNamespace("theirs"))
	pod := l.alone("ns", "mine")
	l.share(quotaOf("ns", 8, 0))
	told := l.RecordRefusal(pod, "no")
	if node, evicted := l.postFilter(framework.NewCycleState(), pod); node != "" || len(evicted) > 0 || l.told != told {
		t.Errorf("%v leave for a place on %q, told %q", evicted, node, l.told)
	}
	*now = now.Add(phase.BaseBackoff)
	if node, evicted := l.postFilter(framework.NewCycleState(), pod); node != "n1" || !slices.Equal(evicted, []string{"new"}) {
		t.Errorf("a minute later %v leave for a place on %q, told %q", evicted, node, l.told)
	}
}
