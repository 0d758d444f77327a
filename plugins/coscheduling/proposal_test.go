package coscheduling

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/test/fixture"
)

// eager has attempts so short that each of them finds who leaves, and the next one rehearses it. It returns an attempt of a gang of some
// whole nodes in a pool of 300, of which the pods of all nodes are weighed, and the proposal of the last.
func eager(t *testing.T, members int) (l *lab, attempt func() (victims []string, unfinished bool), proposed func() *proposal) {
	t.Helper()
	l = smallJobs(t, 300, 20)
	l.now = func() time.Time { return noon }
	for node, info := range l.infos {
		for i, on := range info.GetPods() {
			on.GetPod().Status.StartTime = ptr.To(metav1.NewTime(noon.Add(-time.Duration(1+node+i) * time.Minute)))
		}
	}
	l.protects("ns")
	l.searchLimit = 500
	first := l.largeGang(members, "")
	group := l.groups.GetGroup(mustGroup(first))
	g := gangOf(first, group)
	attempt = func() (victims []string, unfinished bool) {
		m := l.membersOf(first, group)
		move, back := l.findPreemption(t.Context(), g, group, &m, l.newSnapshot(l.infos), nil)
		if move != nil {
			for _, pod := range move.victims {
				victims = append(victims, pod.Name)
			}
			slices.Sort(victims)
		}
		return victims, back.unfinished
	}
	proposed = func() *proposal {
		if r := l.gangs.states[g]; r != nil && r.search != nil {
			return r.search.proposal
		}
		return nil
	}
	for attempts := 0; proposed() == nil; attempts++ {
		if victims, unfinished := attempt(); !unfinished || len(victims) > 0 || attempts == 200 {
			t.Fatalf("after %d attempts %v leave, and nothing was proposed", attempts, victims)
		}
	}
	return l, attempt, proposed
}

// replace has other pods on a node.
func (l *lab) replace(node int, pods ...*corev1.Pod) {
	l.infos[node] = nodeInfo(l.infos[node].Node(), pods...)
}

func (l *lab) podsOn(node int) (pods []*corev1.Pod) {
	for _, on := range l.infos[node].GetPods() {
		pods = append(pods, on.GetPod())
	}
	return pods
}

// comes is a pod of one GPU that has just come to a node.
func (l *lab) comes(node int, name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := fixture.Pod(name).GPUs(1).Obj()
	pod.Namespace, pod.UID = "ns", types.UID(name)
	pod.Spec.NodeName, pod.Spec.Priority, pod.Status.StartTime = l.infos[node].Node().Name, ptr.To(int32(-1)), ptr.To(metav1.NewTime(noon))
	for _, change := range change {
		change(pod)
	}
	l.must(l.pods.Add(pod))
	return pod
}

// TestWhatWasFoundIsRehearsedByTheNextAttempt, as far as it holds by then: what has changed on the nodes meanwhile has others leave, and one more
// attempt at the most.
func TestWhatWasFoundIsRehearsedByTheNextAttempt(t *testing.T) {
	const members = 6
	of := func(nodes ...int) (pods []string) {
		for _, node := range nodes {
			for i := range 8 {
				pods = append(pods, fmt.Sprintf("low-%d-%d", node, i))
			}
		}
		slices.Sort(pods)
		return pods
	}
	for name, tc := range map[string]struct {
		change func(*lab)
		want   []string
		// anew says that it does not hold any more, and is looked for once more.
		anew bool
	}{
		"nothing has changed": {change: func(*lab) {}, want: of(0, 1, 2, 3, 4, 5)},
		"one has ended":       {change: func(l *lab) { l.replace(2, l.podsOn(2)[1:]...) }, want: slices.DeleteFunc(of(0, 1, 2, 3, 4, 5), func(pod string) bool { return pod == "low-2-0" })},
		"another one has come in its place": {change: func(l *lab) { l.replace(2, append(l.podsOn(2)[1:], l.comes(2, "new"))...) },
			want: append(slices.DeleteFunc(of(0, 1, 2, 3, 4, 5), func(pod string) bool { return pod == "low-2-0" }), "new")},
		"one that may not leave has come in its place": {anew: true, want: of(0, 1, 3, 4, 5, 6),
			change: func(l *lab) { l.replace(2, append(l.podsOn(2)[1:], l.comes(2, "high", ofPriority(100)))...) }},
		"one may not leave any more": {anew: true, want: of(0, 1, 3, 4, 5, 6), change: func(l *lab) {
			l.podsOn(2)[0].Labels = map[string]string{"app": "kept"}
			l.protects("ns", "kept")
		}},
		"a node that all were to leave is idle":   {anew: true, change: func(l *lab) { l.replace(2) }, want: of(0, 1, 3, 4, 5)},
		"a node that nobody was to leave is idle": {anew: true, change: func(l *lab) { l.replace(7) }, want: of(0, 1, 2, 3, 4)},
		"a node is gone":                          {anew: true, change: func(l *lab) { l.infos = slices.Delete(slices.Clone(l.infos), 2, 3) }, want: of(0, 1, 3, 4, 5, 6)},
		"members cannot go to one any more": {anew: true, want: of(0, 1, 3, 4, 5, 6), change: func(l *lab) {
			node := l.infos[2].Node().DeepCopy()
			node.Spec.Unschedulable = true
			l.infos[2] = nodeInfo(node, l.podsOn(2)...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l, attempt, proposed := eager(t, members)
			l.among(&filters{})
			tc.change(l)
			victims, unfinished := attempt()
			if anew := l.others.asked == 0 || len(victims) == 0; anew && !tc.anew {
				t.Errorf("what was found is looked for once more")
			}
			for attempts := 0; unfinished; attempts++ {
				if proposed() != nil {
					t.Fatal("it is put off once more")
				}
				if attempts == 40 { // as weighing what has changed takes some
					t.Fatal("nothing is found")
				}
				victims, unfinished = attempt()
			}
			slices.Sort(tc.want)
			if !slices.Equal(victims, tc.want) {
				t.Errorf("there leave\n%s, want\n%s", strings.Join(victims, " "), strings.Join(tc.want, " "))
			}
		})
	}
}

// TestASearchEndsThoughNodesChange: where others come to a node of what was found before each attempt, and may not leave, it is rehearsed at once
// the next time that it is found.
func TestASearchEndsThoughNodesChange(t *testing.T) {
	l, attempt, _ := eager(t, 6)
	l.among(&filters{})
	for attempts := 1; ; attempts++ {
		node := attempts - 1 // the cheapest that is left
		l.replace(node, append(l.podsOn(node)[1:], l.comes(node, fmt.Sprint("high-", attempts), ofPriority(100)))...)
		victims, _ := attempt()
		if len(victims) == 48 {
			t.Logf("%d attempts", attempts)
			return
		}
		if attempts == 2 {
			t.Fatalf("after %d attempts %d leave", attempts, len(victims))
		}
	}
}

// TestWhatIsRefusedIsLookedForElsewhere: each plan is refused for one node after the other. The search goes on in as many attempts as it takes,
// three plans are tried, and it ends with the words of the last.
func TestWhatIsRefusedIsLookedForElsewhere(t *testing.T) {
	for name, tc := range map[string]struct {
		refuses func(node int) bool
		leave   int
	}{
		"two nodes": {refuses: func(node int) bool { return node == 1 || node == 4 }, leave: 48},
		"all nodes": {refuses: func(int) bool { return true }},
	} {
		t.Run(name, func(t *testing.T) {
			l, attempt, _ := eager(t, 6)
			l.among(&filters{at: func(pod *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
				var node int
				if _, err := fmt.Sscanf(info.Node().Name, "n%d", &node); err != nil || !strings.HasPrefix(pod.Name, "m") || !tc.refuses(node) {
					return nil
				}
				return wontDo("no volume")
			}})
			victims, unfinished := attempt()
			attempts := 1
			for ; unfinished && attempts < 200; attempts++ {
				victims, unfinished = attempt()
			}
			if t.Logf("%d attempts", attempts); unfinished || len(victims) != tc.leave {
				t.Errorf("%d leave after %d attempts, want %d", len(victims), attempts, tc.leave)
			}
		})
	}
}
