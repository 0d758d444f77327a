package coscheduling

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// arriving is a gang of which members come one after the other. Those that PreEnqueue keeps out are noted.
type arriving struct {
	*lab
	kept []string
}

func (a *arriving) comes(names ...string) {
	for _, name := range names {
		pod := a.member(name)
		if !a.PreEnqueue(a.Context(), pod).IsSuccess() {
			a.kept = append(a.kept, "ns/"+name)
		}
	}
}

// TestMembersAreNotTriedBeforeTheLastHasCome, and all of them once it has.
func TestMembersAreNotTriedBeforeTheLastHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &arriving{lab: newLab(t, 3)}
		a.group("g", map[string]any{"minMember": int64(3)})
		a.comes("a")
		time.Sleep(arrivalWindow - time.Millisecond)
		a.comes("b")
		time.Sleep(arrivalWindow - time.Millisecond) // b has come meanwhile
		if got := strings.Join(a.kept, " "); got != "ns/a ns/b" || len(a.tried()) > 0 {
			t.Fatalf("kept out %q, tried %q", got, a.tried())
		}
		a.comes("c")
		synctest.Wait()
		if got := strings.Join(a.kept, " "); got != "ns/a ns/b" {
			t.Errorf("kept out %q, want those that came before the last", got)
		}
		if got := a.tried(); len(got) > 0 {
			t.Errorf("tried %q, want none but the last, which is tried for all", got)
		}
	})
}

// TestWhatBecomesOfTheLastMember decides on the others: if it gets a place they are tried as those of a gang that has begun, if not as
// those that only have to be told, and in any case some time.
func TestWhatBecomesOfTheLastMember(t *testing.T) {
	for name, tc := range map[string]struct {
		last  func(a *arriving, pod *corev1.Pod)
		begun bool
	}{
		"it gets a place": {func(a *arriving, pod *corev1.Pod) { a.Permit(a.Context(), framework.NewCycleState(), pod, "n0") }, true},
		"it gets none":    {func(a *arriving, pod *corev1.Pod) { a.postFilter(framework.NewCycleState(), pod) }, false},
		"it is deleted": {func(a *arriving, pod *corev1.Pod) {
			a.must(a.pods.Delete(pod))
			a.podGone(pod)
		}, false},
		"another leader had bound it": {func(a *arriving, pod *corev1.Pod) {
			there := pod.DeepCopy()
			there.Spec.NodeName = "n0"
			a.must(a.pods.Update(there))
			a.podChanged(there)
		}, true},
		"it is held back": {func(*arriving, *corev1.Pod) {
			time.Sleep(lastWindow)
			synctest.Wait()
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &arriving{lab: newLab(t, 3)}
				a.group("g", map[string]any{"minMember": int64(3)})
				a.comes("a", "b", "c")
				if tc.last(a, a.member("c")); strings.Join(a.tried(), " ") != "ns/a ns/b" {
					t.Fatalf("tried %q, want the others", a.tried())
				}
				pod := a.member("a")
				a.kept = nil
				if a.comes("a"); len(a.kept) > 0 && tc.begun {
					t.Error("kept out once more")
				}
				if got, _ := a.queuePositions.PositionOf(pod.UID); got.HasBegun != tc.begun {
					t.Errorf("its gang has begun: %v, want %v", got.HasBegun, tc.begun)
				}
				a.forget()
				time.Sleep(time.Hour)
				synctest.Wait()
				if got := a.tried(); len(got) > 0 && name != "it is deleted" { // which makes the gang incomplete
					t.Errorf("tried %q again", got)
				}
			})
		})
	}
}

// TestAMemberThatSaidWhatIsMissingIsTriedWithTheOthers, as half a gang that was ended is made again: it says no longer that they are missing.
func TestAMemberThatSaidWhatIsMissingIsTriedWithTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &arriving{lab: newLab(t, 2)}
		a.group("g", map[string]any{"minMember": int64(3)})
		first := a.member("a")
		cs, _, why := a.aim(first)
		if a.postFilter(cs, first); !strings.Contains(why, "cannot find enough sibling pods") {
			t.Fatalf("it is told %q", why)
		}
		a.comes("b", "c")
		a.forget()
		cs, _, why = a.aim(a.pod("c"))
		a.postFilter(cs, a.pod("c"))
		if got := strings.Join(a.tried(), " "); got != "ns/a ns/b" {
			t.Errorf("as the last is told %q, %q are tried, want all others", why, got)
		}
	})
}

// TestAMemberThatIsGoneHasNobodyTried while the queue has it, which is locked then: to have others tried would wait for that lock for
// ever, and the scheduler with it.
func TestAMemberThatIsGoneHasNobodyTried(t *testing.T) {
	for name, gone := range map[string]string{"one that was kept out": "a", "one that came after the last": "d"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &arriving{lab: newLab(t, 3)}
				a.group("g", map[string]any{"minMember": int64(3)})
				a.comes("a", "b", "c") // of which the last waits to be tried for all
				pod := a.member(gone)
				a.must(a.pods.Delete(pod))
				a.PreEnqueue(a.Context(), pod)
				if got := a.tried(); len(got) > 0 {
					t.Errorf("%q are tried under the lock of the queue", got)
				}
				if _, gone := a.queuePositions.CountKept(); gone == 0 {
					t.Error("its turn is kept")
				}
				a.podGone(pod)
				if got := strings.Join(a.tried(), " "); !strings.Contains(got, "ns/b") {
					t.Errorf("when it is told that the pod is gone %q are tried, want those that were kept out", got)
				}
			})
		})
	}
}

// TestThoseThatWereKeptOutComeLast: a large gang whose last member has come keeps others waiting for one attempt, and not for one
// of each of its members.
func TestThoseThatWereKeptOutComeLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &arriving{lab: newLab(t, 3)}
		a.group("g", map[string]any{"minMember": int64(500)})
		for i := range 500 {
			a.comes(fmt.Sprint("p", i))
		}
		a.postFilter(framework.NewCycleState(), a.member("p499"))
		a.comes("p0") // as it is put in the queue now
		other := a.member("other", func(pod *corev1.Pod) { pod.Labels = nil })
		meanwhile := queued(t, other, a.now().Add(time.Second))
		if first := queued(t, a.member("p0"), a.now()); a.Less(first, meanwhile) || !a.Less(meanwhile, first) {
			t.Error("a member that was kept out comes before a pod of others that came after the gang was whole")
		}
	})
}

// TestAGangThatStaysIncompleteIsTold: its members are tried when no more have come for a while, each of them, so that each says why
// it waits, and not kept out again.
func TestAGangThatStaysIncompleteIsTold(t *testing.T) {
	for name, group := range map[string]map[string]any{"of three": {"minMember": int64(3)}, "without its PodGroup": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &arriving{lab: newLab(t, 3)}
				if group != nil {
					a.group("g", group)
				}
				a.comes("a", "b")
				for range 10 { // what happens in the cluster is no news of theirs, and puts off nothing
					time.Sleep(arrivalWindow / 10)
					a.PreEnqueue(a.Context(), a.groupPods(types.NamespacedName{Namespace: "ns", Name: "g"})[0])
				}
				synctest.Wait()
				if got := strings.Join(a.tried(), " "); got != "ns/a ns/b" {
					t.Fatalf("tried %q, want each", got)
				}
				a.kept = nil
				if a.comes("a", "b"); len(a.kept) > 0 {
					t.Errorf("kept out %q after it was told", a.kept)
				}
				_, status := a.PreFilter(a.Context(), framework.NewCycleState(), a.member("a"), a.infos)
				if status.Message() == "" {
					t.Error("PreFilter does not say what is missing")
				}
			})
		})
	}
}

// TestWhoIsNotKeptOut: for whom no more members have to come.
func TestWhoIsNotKeptOut(t *testing.T) {
	for name, prepare := range map[string]func(l *lab) *corev1.Pod{
		"a pod of no gang":  func(l *lab) *corev1.Pod { return l.member("a", func(pod *corev1.Pod) { pod.Labels = nil }) },
		"the gang is whole": func(l *lab) *corev1.Pod { l.group("g", map[string]any{"minMember": int64(1)}); return l.member("a") },
		"a PodGroup unreadable": func(l *lab) *corev1.Pod {
			l.group("g", map[string]any{"minMember": "many"})
			return l.member("a")
		},
		"others have succeeded": func(l *lab) *corev1.Pod {
			l.group("g", map[string]any{"minMember": int64(2)})
			done := l.member("done")
			l.must(l.pods.Delete(done)) // the pods that are followed are those that live
			l.must(l.finished.Members.Add(done))
			return l.member("a")
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2)
			if status := l.PreEnqueue(l.Context(), prepare(l)); !status.IsSuccess() {
				t.Errorf("kept out: %s", status.Message())
			}
		})
	}
}

// TestWhatMembersReportedIsForgotten once they are gone, or all have places.
func TestWhatMembersReportedIsForgotten(t *testing.T) {
	l := newLab(t, 3)
	l.group("g", map[string]any{"minMember": int64(3)})
	stays := l.member("stays")
	g := gangOf(stays, l.groups.GetGroup(mustGroup(stays)))
	l.try(stays)
	for i := range 10 {
		pod := l.member(fmt.Sprint("goes-", i))
		l.try(pod)
		l.must(l.pods.Delete(pod))
		l.podGone(pod)
	}
	if kept := l.gangs.states[g].missedSiblings.Len(); kept > 2 {
		t.Errorf("%d members are remembered, of which 2 waited at a time", kept)
	}
	for _, pod := range []*corev1.Pod{stays, l.member("b"), l.member("c")} {
		if why, _ := l.try(pod); why != "" {
			t.Fatalf("%s is rejected: %s", pod.Name, why)
		}
	}
	if kept := l.gangs.states[g].missedSiblings.Len(); kept > 0 {
		t.Errorf("%d members are remembered, though all have places", kept)
	}
}

// TestNobodyIsLookedAtWhileMembersCome: what changes in the cluster costs no look at each of a large gang.
func TestNobodyIsLookedAtWhileMembersCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &arriving{lab: newLab(t, 1)}
		a.group("g", map[string]any{"minMember": int64(2)})
		a.comes("a")
		pod, node := a.member("a"), a.infos[0].Node()
		if hint, err := a.afterNodeChange(klog.Background(), pod, nil, node); err != nil || hint != fwk.QueueSkip {
			t.Errorf("a node that comes has it looked at: %v, %v", hint, err)
		}
		time.Sleep(2 * arrivalWindow)
		if hint, err := a.afterNodeChange(klog.Background(), pod, nil, node); err != nil || hint != fwk.Queue {
			t.Errorf("a node that comes after it was told has it not looked at: %v, %v", hint, err)
		}
	})
}

// TestASmallerGangIsWholeAtOnce: when its PodGroup asks for no more members than there are.
func TestASmallerGangIsWholeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &arriving{lab: newLab(t, 1)}
		a.group("g", map[string]any{"minMember": int64(3)})
		a.comes("a", "b")
		a.group("g", map[string]any{"minMember": int64(2)})
		a.groupChanged(nil, a.groups.GetGroup(types.NamespacedName{Namespace: "ns", Name: "g"}))
		a.kept = nil
		if a.comes("a", "b"); len(a.kept) > 0 {
			t.Errorf("kept out %q", a.kept)
		}
	})
}

// counts is an index that counts how often it is asked for the members of a gang.
type counts struct {
	cache.Indexer
	asked int
}

func (c *counts) IndexKeys(index, value string) ([]string, error) {
	c.asked++
	return c.Indexer.IndexKeys(index, value)
}

func (c *counts) ByIndex(index, value string) ([]any, error) {
	c.asked++
	return c.Indexer.ByIndex(index, value)
}

// TestALargeGangIsNotCountedForEachOfItsMembers, under the lock of the queue.
func TestALargeGangIsNotCountedForEachOfItsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &arriving{lab: newLab(t, 1)}
		index := &counts{Indexer: a.pods}
		a.pods = index
		a.group("g", map[string]any{"minMember": int64(1000)})
		for i := range 1000 {
			a.comes(fmt.Sprint("p", i))
		}
		if len(a.kept) != 999 || index.asked > 10 {
			t.Errorf("kept out %d, counted %d times", len(a.kept), index.asked)
		}
		for i := range 1000 { // as all are tried at once
			a.comes(fmt.Sprint("p", i))
		}
		if len(a.kept) != 999 || index.asked > 10 {
			t.Errorf("kept out %d, counted %d times when all were tried", len(a.kept), index.asked)
		}
	})
}

// TestWhatIsKeptOfArrivalsGoesWithThem: nothing is kept of gangs that are whole, or gone.
func TestWhatIsKeptOfArrivalsGoesWithThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &arriving{lab: newLab(t, 1)}
		a.group("g", map[string]any{"minMember": int64(40)})
		for i := range 30 {
			a.comes(fmt.Sprint("p", i))
		}
		pods := a.groupPods(types.NamespacedName{Namespace: "ns", Name: "g"})
		for _, pod := range slices.Clone(pods) {
			a.must(a.pods.Delete(pod))
			a.podGone(pod)
		}
		if n := len(a.gangs.states); n != 0 {
			t.Errorf("%d gangs are kept", n)
		}
		time.Sleep(time.Hour)
		if got := a.tried(); len(got) > 0 {
			t.Errorf("tried %q, which are gone", got)
		}
	})
}

// TestALargeGangThatEndsIsNotCountedForEachOfItsMembers: who tells of pods tells all others after that.
func TestALargeGangThatEndsIsNotCountedForEachOfItsMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &arriving{lab: newLab(t, 1)}
		a.group("g", map[string]any{"minMember": int64(1000)})
		var pods []*corev1.Pod
		for i := range 1000 {
			a.comes(fmt.Sprint("p", i))
			pods = append(pods, a.member(fmt.Sprint("p", i)))
		}
		a.refuse(pods[999])
		index := &counts{Indexer: a.pods}
		a.pods = index
		for _, pod := range pods {
			a.handleGroupExit(pod, pod.DeepCopy()) // its status changes
		}
		if index.asked > 0 {
			t.Errorf("counted %d times as their status changes", index.asked)
		}
		for _, pod := range pods {
			a.must(a.pods.Delete(pod))
			a.podGone(pod)
		}
		if index.asked > 20 {
			t.Errorf("counted %d times as they are deleted", index.asked)
		}
		if len(a.gangs.states) > 0 {
			t.Errorf("%d gangs are kept", len(a.gangs.states))
		}
		time.Sleep(time.Hour)
	})
}

// TestAPodThatGoesFromGangToGangLeavesNothingBehind: users change labels as they like.
func TestAPodThatGoesFromGangToGangLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &arriving{lab: newLab(t, 1)}
		pod := a.member("a")
		for i := range 10 {
			name := fmt.Sprint("g", i)
			a.group(name, map[string]any{"minMember": int64(2)})
			before := pod
			pod = before.DeepCopy()
			pod.Labels[names.LabelPodGroup] = name
			a.must(a.pods.Update(pod))
			a.handleGroupExit(before, pod)
			a.PreEnqueue(a.Context(), pod)
			a.refuse(pod)
		}
		if len(a.gangs.states) != 2 {
			t.Errorf("%d states are kept, want that of one gang and that of the arrivals of its PodGroup", len(a.gangs.states))
		}
		time.Sleep(time.Hour)
	})
}
