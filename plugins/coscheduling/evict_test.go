package coscheduling

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	policylisters "k8s.io/client-go/listers/policy/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/preemption"
	"g8s.host/gpu-scheduler/test/fixture"
)

// running puts a pod with 8 GPUs, or as changed, on a node, where it has been for a number of minutes.
func (l *lab) running(node int, name string, minutes int, change ...func(*corev1.Pod)) *corev1.Pod {
	l.Helper()
	pod := fixture.Pod(name).GPUs(8).Label("app", name).Obj()
	pod.Namespace, pod.UID = "ns", types.UID(name)
	pod.Spec.NodeName = l.infos[node].Node().Name
	pod.Status.StartTime = ptr.To(metav1.NewTime(l.now().Add(-time.Duration(minutes) * time.Minute)))
	for _, change := range change {
		change(pod)
	}
	l.must(l.pods.Add(pod))
	var all []*corev1.Pod
	for _, other := range l.infos[node].GetPods() {
		all = append(all, other.GetPod())
	}
	l.infos[node] = nodeInfo(l.infos[node].Node(), append(all, pod)...)
	return pod
}

// refuse takes a pod through PreFilter, which turns it away, and PostFilter. It returns the node that it is nominated for, who
// is evicted, and where the API server is told that members go.
func (l *lab) refuse(pod *corev1.Pod) (node string, evicted, nominated []string) {
	l.Helper()
	cs, _, reason := l.aim(pod)
	if reason == "" {
		l.Fatalf("%s is not turned away", pod.Name)
	}
	node, evicted = l.postFilter(cs, pod)
	for _, action := range l.client.Actions() {
		if action, ok := action.(clienttesting.PatchAction); ok {
			if patch := string(action.GetPatch()); strings.Contains(patch, "nominatedNodeName") {
				_, to, _ := strings.Cut(patch, `"nominatedNodeName":`)
				nominated = append(nominated, action.GetName()+" "+strings.Trim(to, `}"`))
			}
		}
	}
	slices.Sort(nominated)
	return node, evicted, nominated
}

// postFilter takes a pod through PostFilter alone. It returns the node that it is nominated for, and who is evicted.
func (l *lab) postFilter(cs fwk.CycleState, pod *corev1.Pod) (node string, evicted []string) {
	l.Helper()
	l.client.ClearActions()
	result, status := l.PostFilter(l.Context(), cs, pod, nil)
	l.told = status.Message()
	for !l.Settled() {
		time.Sleep(time.Millisecond)
	}
	if result != nil {
		node = result.NominatedNodeName
	}
	return node, l.evicted()
}

// evicted are the pods that were deleted since the last time that it was forgotten, when all is written.
func (l *lab) evicted() (pods []string) {
	for !l.Settled() {
		time.Sleep(time.Millisecond)
	}
	for _, action := range l.client.Actions() {
		if action, ok := action.(clienttesting.DeleteAction); ok && len(action.GetDeleteOptions().DryRun) == 0 {
			pods = append(pods, action.GetName())
		}
	}
	slices.Sort(pods)
	return pods
}

// answers has the API server take what it is told.
func (l *lab) answers() {
	done := func(clienttesting.Action) (bool, runtime.Object, error) { return true, &corev1.Pod{}, nil }
	l.client.PrependReactor("patch", "pods", done)
	l.client.PrependReactor("delete", "pods", done)
}

func ofPriority(priority int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Priority = &priority }
}

func TestWhoLeavesForAGang(t *testing.T) {
	minus := ofPriority(-1)
	tests := map[string]struct {
		members int
		layout  string
		needs   map[string]any // minResources of its PodGroup
		runs    func(*lab)
		change  func(*corev1.Pod)
		evicted []string
		nodes   []string // that members are nominated for, of all
	}{
		"one, where one is missing, and the one that lost the least": {members: 3, runs: func(l *lab) {
			l.running(0, "old", 60, minus)
			l.running(1, "new", 5, minus)
		}, evicted: []string{"new"}, nodes: []string{"n1", "n2", "n3"}},
		"the one that has saved its work": {members: 3, runs: func(l *lab) {
			l.running(0, "saved", 60, minus, func(pod *corev1.Pod) {
				pod.Annotations = map[string]string{names.AnnotationCheckpointedAt: l.now().Add(-time.Minute).Format(time.RFC3339)}
			})
			l.running(1, "new", 5, minus)
		}, evicted: []string{"saved"}, nodes: []string{"n0", "n2", "n3"}},
		"nobody of the same priority": {members: 3, runs: func(l *lab) { l.running(0, "a", 1, minus); l.running(1, "b", 1); l.running(2, "c", 1) }},
		"nobody, where the gang is not to": {members: 4, runs: func(l *lab) { l.running(0, "a", 1, minus) },
			change: func(pod *corev1.Pod) { pod.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever) }},
		"all of a gang, also what is elsewhere": {members: 4, runs: func(l *lab) {
			l.group("low", map[string]any{"minMember": int64(2)})
			of := func(pod *corev1.Pod) { pod.Labels[names.LabelPodGroup] = "low"; ownedBy("low")(pod) }
			l.running(0, "low-0", 5, minus, of)
			elsewhere := l.running(1, "low-1", 5, minus, of)
			l.infos[1] = nodeInfo(l.infos[1].Node())
			elsewhere.Spec.NodeName = "n1"
		}, evicted: []string{"low-0", "low-1"}, nodes: []string{"n0", "n1", "n2", "n3"}},
		"nobody of a gang with a member that may not be evicted": {members: 4, runs: func(l *lab) {
			l.group("low", map[string]any{"minMember": int64(2)})
			of := func(pod *corev1.Pod) { pod.Labels[names.LabelPodGroup] = "low"; ownedBy("low")(pod) }
			l.running(0, "low-0", 5, minus, of)
			l.member("low-1", of, boundTo("n9"))
		}},
		"nobody that a budget protects": {members: 3, runs: func(l *lab) {
			l.budget("old", 0)
			l.running(0, "old", 1, minus)
			l.running(1, "new", 50, minus)
		}, evicted: []string{"new"}, nodes: []string{"n1", "n2", "n3"}},
		"as many as a budget allows, and nobody if that is not enough": {members: 4, runs: func(l *lab) {
			l.budget("same", 1)
			same := func(pod *corev1.Pod) { pod.Labels["app"] = "same" }
			l.running(0, "a", 1, minus, same)
			l.running(1, "b", 1, minus, same)
		}},
		"nobody else, where those leave who have to": {members: 4, runs: func(l *lab) {
			l.running(0, "a", 1, minus, leaving)
			l.running(1, "b", 1, minus, leaving)
		}},
		"nobody, where one that was to leave will not": {members: 4, runs: func(l *lab) {
			l.running(0, "stuck", 1, minus, func(pod *corev1.Pod) { pod.DeletionTimestamp = ptr.To(metav1.NewTime(l.now().Add(-time.Hour))) })
			l.running(1, "b", 1, minus)
		}},
		"nobody of a gang that a budget protects elsewhere": {members: 4, runs: func(l *lab) {
			l.budget("far", 0)
			l.group("low", map[string]any{"minMember": int64(2)})
			of := func(pod *corev1.Pod) { pod.Labels[names.LabelPodGroup] = "low"; ownedBy("low")(pod) }
			l.running(0, "low-0", 5, minus, of)
			l.running(1, "low-1", 5, minus, of, func(pod *corev1.Pod) { pod.Labels["app"] = "far" })
			l.infos[1] = nodeInfo(l.infos[1].Node())
		}},
		"those of one rack, where one has to hold the gang": {members: 2, layout: "required=rack", runs: func(l *lab) {
			l.running(0, "a", 9, minus)
			l.running(2, "b", 5, minus)
			l.running(3, "c", 5, minus)
		}, evicted: []string{"a"}, nodes: []string{"n0", "n1"}},
		"both that share a node, if it takes both": {members: 4, runs: func(l *lab) {
			l.running(0, "half", 5, minus, smaller(4))
			l.running(0, "other", 5, minus, smaller(4))
		}, evicted: []string{"half", "other"}, nodes: []string{"n0", "n1", "n2", "n3"}},
		"one, where minResources is the sum of the members": {members: 4, needs: map[string]any{names.ResourceGPU: "32"}, runs: func(l *lab) {
			l.running(0, "old", 60, minus)
		}, evicted: []string{"old"}, nodes: []string{"n0", "n1", "n2", "n3"}},
		"nobody, where minResources is more than that": {members: 4, needs: map[string]any{names.ResourceGPU: "40"}, runs: func(l *lab) {
			l.running(0, "old", 60, minus)
		}},
		"nobody for members that are not there": {members: 5, runs: func(l *lab) { l.running(0, "a", 1, minus) }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newRacks(t, 4)
			l.answers()
			spec := map[string]any{"minMember": int64(tc.members)}
			if tc.needs != nil {
				spec["minResources"] = tc.needs
			}
			l.group("g", spec, laidOut(tc.layout))
			tc.runs(l)
			var pods []*corev1.Pod
			for i := range min(tc.members, 4) {
				pods = append(pods, l.member(fmt.Sprint("m", i), func(pod *corev1.Pod) {
					if tc.change != nil {
						tc.change(pod)
					}
				}))
			}
			node, evicted, nominated := l.refuse(pods[0])
			if !slices.Equal(evicted, tc.evicted) || (node != "") != (tc.evicted != nil) {
				t.Errorf("%v are evicted for a place on %q, want %v", evicted, node, tc.evicted)
			}
			var nodes []string
			for _, to := range nominated {
				nodes = append(nodes, strings.Fields(to)[1])
			}
			if slices.Sort(nodes); !slices.Equal(nodes, tc.nodes) {
				t.Errorf("members are nominated: %v, want for %v", nominated, tc.nodes)
			}
			if _, again, _ := l.refuse(pods[len(pods)-1]); len(again) > 0 {
				t.Errorf("%v are evicted for a sibling, too", again)
			}
		})
	}
}

// budget allows so many disruptions of the pods of an app.
func (l *lab) budget(app string, allowed int32) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	l.must(indexer.Add(&policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: app},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}))
	l.budgets = policylisters.NewPodDisruptionBudgetLister(indexer)
}

// TestARetryKeepsThePlace: kube-scheduler's own preemption, which comes first, says that the pod goes nowhere, and that counts
// unless the last one to speak names a node. Another pod would take the place then, and be evicted in turn.
func TestARetryKeepsThePlace(t *testing.T) {
	l := newRacks(t, 2)
	l.answers()
	l.group("g", map[string]any{"minMember": int64(2)})
	low := l.running(0, "low", 1, ofPriority(-1))
	pods := []*corev1.Pod{l.member("a"), l.member("b")}
	node, evicted, _ := l.refuse(pods[0])
	if node == "" || !slices.Equal(evicted, []string{"low"}) {
		t.Fatalf("%v are evicted for a place on %q", evicted, node)
	}
	other := map[string]string{"n0": "n1", "n1": "n0"}[node]
	pods[0].Status.NominatedNodeName, pods[1].Status.NominatedNodeName = node, other
	low.DeletionTimestamp = ptr.To(metav1.NewTime(l.now()))
	if again, more, _ := l.refuse(pods[0]); again != node || len(more) > 0 {
		t.Errorf("tried again at once it goes to %q, and %v are evicted, want %q", again, more, node)
	}
	later := l.now().Add(phase.SettleTime)
	l.now = func() time.Time { return later }
	if again, more, _ := l.refuse(pods[0]); again != node || len(more) > 0 {
		t.Errorf("tried again while the other leaves it goes to %q, and %v are evicted, want %q", again, more, node)
	}
}

// TestASearchHasAnEnd: what was cut short evicts nobody, and is not repeated at once.
func TestASearchHasAnEnd(t *testing.T) {
	l := newRacks(t, 2)
	l.answers()
	l.group("g", map[string]any{"minMember": int64(2)})
	l.running(0, "low", 1, ofPriority(-1))
	pod := l.member("a")
	l.member("b")
	l.searchLimit = 0 // five times one is enough to count both nodes
	if node, evicted, _ := l.refuse(pod); node != "" || len(evicted) > 0 {
		t.Errorf("%v are evicted for a place on %q", evicted, node)
	}
	l.searchLimit = searchBudget
	if _, evicted, _ := l.refuse(pod); len(evicted) > 0 {
		t.Errorf("it was tried again at once, and %v are evicted", evicted)
	}
	now := time.Now().Add(2 * phase.BaseBackoff)
	l.now = func() time.Time { return now }
	if _, evicted, _ := l.refuse(pod); !slices.Equal(evicted, []string{"low"}) {
		t.Errorf("%v are evicted later, want low", evicted)
	}
}

// TestANominationEndsWithItsReason: it would keep others out.
func TestANominationEndsWithItsReason(t *testing.T) {
	l := newRacks(t, 4)
	l.answers()
	l.group("g", map[string]any{"minMember": int64(4)})
	l.running(0, "busy", 1)
	nominated := func(pod *corev1.Pod) { pod.Status.NominatedNodeName = "n2" }
	pods := []*corev1.Pod{l.member("a", nominated), l.member("b"), l.member("c", nominated), l.member("d")}
	if _, evicted, ended := l.refuse(pods[1]); len(evicted) > 0 || !slices.Equal(ended, []string{"a null", "c null"}) {
		t.Errorf("%v are evicted, nominations: %v", evicted, ended)
	}
}

// TestAGangGoesWhereItIsNominated, since others left those nodes for it, though another rack would be as good.
func TestAGangGoesWhereItIsNominated(t *testing.T) {
	to := func(node string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Status.NominatedNodeName = node }
	}
	for name, tc := range map[string]struct{ first, second, want string }{
		"in one rack":                    {"n3", "n2", "n3 n2"},
		"not in two racks":               {"n1", "n2", "n0 n1"},
		"not where there is no room":     {"n2", "n2", "n0 n1"},
		"not on a node that is gone":     {"n2", "n9", "n0 n1"},
		"not if one is nominated for no": {"n2", "", "n0 n1"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newRacks(t, 4)
			l.group("g", map[string]any{"minMember": int64(2)}, laidOut("required=rack"))
			first, second := l.member("a", to(tc.first)), l.member("b", to(tc.second))
			if got := l.settle(first) + " " + l.settle(second); got != tc.want {
				t.Errorf("the members are on %s, want %s", got, tc.want)
			}
		})
	}
}

// TestAnEvictionThatFailsIsTriedOnceMore: nobody is evicted before all members are nominated.
func TestAnEvictionThatFailsIsTriedOnceMore(t *testing.T) {
	l := newRacks(t, 2)
	l.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("lost") })
	l.group("g", map[string]any{"minMember": int64(2)})
	l.running(0, "low", 1, ofPriority(-1))
	first := l.member("a")
	l.member("b")
	if _, evicted, _ := l.refuse(first); len(evicted) > 0 {
		t.Errorf("%v are evicted, though nobody is nominated", evicted)
	}
	for deadline := time.Now().Add(10 * time.Second); len(l.tried()) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the gang is not tried any more")
		}
	}
	l.client.ReactionChain = nil
	l.answers()
	if _, evicted, _ := l.refuse(first); !slices.Equal(evicted, []string{"low"}) {
		t.Errorf("%v are evicted when the API server answers again", evicted)
	}
}

// TestOneThatWaitsForItsSiblingsIsToldToLeave: it is no pod with a node yet.
func TestOneThatWaitsForItsSiblingsIsToldToLeave(t *testing.T) {
	l := newRacks(t, 2)
	l.answers()
	l.group("g", map[string]any{"minMember": int64(2)})
	low := l.running(0, "low", 0, ofPriority(-1))
	held := l.hold(low)
	first := l.member("a")
	l.member("b")
	if node, evicted, _ := l.refuse(first); node == "" || len(evicted) > 0 || held.refused == "" {
		t.Errorf("nominated for %q; %v are deleted, the one that waits is told %q", node, evicted, held.refused)
	}
}

// TestWritesThatMeetOthersAreRepeated: the API server answers Conflict when others write to a pod, and when the pod is another
// one by now. The first is no reason to leave a pod where it is, the second is.
func TestWritesThatMeetOthersAreRepeated(t *testing.T) {
	for name, tc := range map[string]struct {
		conflicts int
		there     types.UID
		evicted   []string
		again     bool
	}{
		"a write that meets another":   {conflicts: 2, there: "low", evicted: []string{"low"}},
		"one that meets others always": {conflicts: 1 << 20, there: "low", again: true},
		"a pod that is another by now": {conflicts: 1 << 20, there: "other"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newRacks(t, 2)
			left := tc.conflicts
			l.client.PrependReactor("delete", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				if left--; left >= 0 {
					return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "low", errors.New("meanwhile"))
				}
				return true, nil, nil
			})
			l.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, &corev1.Pod{}, nil })
			l.client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: tc.there}}, nil
			})
			err := l.evictor().EvictPod(t.Context(), l.running(0, "low", 1, ofPriority(-1)), preemption.EvictionReason{Preemptor: l.member("a")})
			if (err != nil) != tc.again {
				t.Errorf("evicting: %v", err)
			}
			if evicted := left < 0; evicted != (tc.evicted != nil) {
				t.Errorf("evicted: %t", evicted)
			}
		})
	}
}

// TestMembersAreNominatedTogether: a leader that dies after it has nominated some leaves it to the next to nominate the others.
func TestMembersAreNominatedTogether(t *testing.T) {
	l := newRacks(t, 2)
	l.answers()
	l.group("g", map[string]any{"minMember": int64(2)})
	l.running(0, "low", 1, ofPriority(-1), leaving)
	first := l.member("a", func(pod *corev1.Pod) { pod.Status.NominatedNodeName = "n1" })
	l.member("b")
	if _, evicted, nominated := l.refuse(first); len(evicted) > 0 || len(nominated) == 0 || !slices.ContainsFunc(nominated, func(to string) bool { return strings.HasPrefix(to, "b n") }) {
		t.Errorf("%v are evicted, members are nominated: %v", evicted, nominated)
	}
}
