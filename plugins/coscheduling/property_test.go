package coscheduling

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gang/placement"
)

// TestWhoLeavesIsEnough in random clusters with gangs of one to three roles, disruption budgets and GPUQuotas: a gang for which others leave has room
// for all then, no budget is exceeded, and when nobody leaves no set of those that may would have been enough.
func TestWhoLeavesIsEnough(t *testing.T) {
	random := rand.New(rand.NewPCG(51, 52))
	evictions, vain := 0, 0
	for round := range 250 {
		l := newLab(t, 2+random.IntN(3))
		l.answers()
		all := slices.Clone(l.infos)
		var first *corev1.Pod
		for i := range 1 + random.IntN(3) {
			gpus := int64(1 + random.IntN(8))
			for j := range 1 + random.IntN(2) {
				pod := l.member(fmt.Sprintf("m%d-%d", i, j), ofApp("gang", gpus))
				if first == nil {
					first = pod
				}
			}
		}
		l.group("g", map[string]any{"minMember": int64(len(l.pods.List()))})
		number := 0
		for node := range l.infos {
			for left := 8; left > 0 && number < 7; number++ {
				gpus := 1 + random.IntN(left)
				left -= gpus
				namespace := []string{"ns", "theirs"}[random.IntN(2)]
				l.running(node, fmt.Sprint("p", number), 1+random.IntN(60), inNamespace(namespace), agedMinutes(random.IntN(60)), ofPriority(int32(random.IntN(3)-2)),
					ofApp([]string{"a", "b"}[random.IntN(2)], int64(gpus)))
			}
		}
		allowed := int32(random.IntN(3))
		l.budget("a", allowed)
		l.share(quotaOf("ns", int64(8*random.IntN(3)), 0), quotaOf("theirs", int64(8*random.IntN(2)), 0))
		cs, _, reason := l.aim(first)
		if reason == "" {
			continue
		}
		may := l.mayLeave(first)
		full := slices.Clone(l.infos)
		_, evicted := l.postFilter(cs, first)
		if len(evicted) == 0 {
			vain++
			for set := range 1 << len(may) {
				var gone []string
				for i, pod := range may {
					if set>>i&1 == 1 {
						gone = append(gone, pod.Name)
					}
				}
				if l.spends(may, gone) <= allowed && l.fitsWithout(first, all, full, gone) {
					t.Fatalf("round %d: nobody leaves, and it would be enough that %v do", round, gone)
				}
			}
			continue
		}
		evictions++
		if spent := l.spends(may, evicted); spent > allowed {
			t.Fatalf("round %d: %v leave, %d of a budget of %d", round, evicted, spent, allowed)
		}
		if !l.fitsWithout(first, all, full, evicted) {
			t.Fatalf("round %d: %v leave, and the gang does not fit", round, evicted)
		}
	}
	t.Logf("%d evictions, and %d in which nobody could make room", evictions, vain)
	if evictions < 40 || vain < 20 {
		t.Errorf("%d evictions and %d without, want more of both", evictions, vain)
	}
}

// mayLeave are the pods that may leave for a gang, for all that priorities, quotas and budgets that allow nothing say.
func (l *lab) mayLeave(first *corev1.Pod) (pods []*corev1.Pod) {
	group := l.groups.GetGroup(mustGroup(first))
	m := l.membersOf(first, group)
	b := l.newSnapshot(l.infos)
	b.Request = l.quotaRequest(group, &m)
	kinds := placement.NewPodClasses(m.Waiting).Classes
	seats, err := b.SlotsFor(kinds)
	l.must(err)
	c := l.censusOf(placement.NewNodeDomain(group.Layout, seats, b), gangOf(first, group), l.victimPriorityLimit(m.Waiting, lowestPriority(m.Waiting)), nil)
	for _, info := range l.infos {
		for _, on := range info.GetPods() {
			if pod := on.GetPod(); c.mayBeEvicted(pod, c.quotaStanding(pod)) {
				pods = append(pods, on.GetPod())
			}
		}
	}
	return pods
}

// spends is how many of some pods, by name, the budget of app a counts.
func (l *lab) spends(pods []*corev1.Pod, names []string) (count int32) {
	for _, pod := range pods {
		if slices.Contains(names, pod.Name) && pod.Labels["app"] == "a" && pod.Namespace == "ns" {
			count++
		}
	}
	return count
}

// fitsWithout reports whether a gang begins when some pods, by name, are gone.
func (l *lab) fitsWithout(first *corev1.Pod, empty, full []fwk.NodeInfo, gone []string) bool {
	l.gangs.dropGang(gangOf(first, l.groups.GetGroup(mustGroup(first))))
	for i, info := range full {
		var stay []*corev1.Pod
		for _, on := range info.GetPods() {
			if !slices.Contains(gone, on.GetPod().Name) {
				stay = append(stay, on.GetPod())
			}
		}
		l.infos[i] = nodeInfo(empty[i].Node(), stay...)
	}
	_, _, reason := l.aim(first)
	return reason == ""
}
