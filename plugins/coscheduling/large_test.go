package coscheduling

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/test/fixture"
)

// smallJobs fills nodes in racks of some with 8 pods of one GPU and lower priority each.
func smallJobs(t testing.TB, nodes, rack int) *lab {
	l := newLab(t, nodes)
	l.answers()
	for node := range nodes {
		l.infos[node].Node().Labels["g8s.host/rack"] = fmt.Sprint("r", node/rack)
		pods := make([]*corev1.Pod, 8)
		for i := range pods {
			pod := fixture.Pod(fmt.Sprintf("low-%d-%d", node, i)).GPUs(1).Obj()
			pod.Namespace, pod.UID = "ns", types.UID(pod.Name)
			pod.Spec.NodeName, pod.Spec.Priority = l.infos[node].Node().Name, ptr.To(int32(-1))
			pod.Status.StartTime = ptr.To(metav1.NewTime(l.now().Add(-time.Duration(1+node+i) * time.Minute)))
			l.must(l.pods.Add(pod))
			pods[i] = pod
		}
		l.infos[node] = nodeInfo(l.infos[node].Node(), pods...)
	}
	return l
}

// largeGang makes a gang, and returns the member that is tried first.
func (l *lab) largeGang(members int, how string) (first *corev1.Pod) {
	l.group("g", map[string]any{"minMember": int64(members)}, laidOut(how))
	for i := range members {
		pod := l.member(fmt.Sprint("m", i))
		if first == nil {
			first = pod
		}
	}
	return first
}

// TestAGangEvictsInALargePool: a gang of high priority has pods of low priority evicted in a pool of thousands of nodes as in one of a hundred, at once
// when their pods were weighed, and those that lose the least.
func TestAGangEvictsInALargePool(t *testing.T) {
	for _, nodes := range []int{100, 400, 1000, 4000} {
		for _, how := range []string{"", "required=rack", "preferred=rack", "required=rack;segment=8", "preferred=rack;segment=8"} {
			t.Run(fmt.Sprintf("%d nodes %s", nodes, how), func(t *testing.T) {
				l := smallJobs(t, nodes, 40)
				first := l.largeGang(16, how)
				now := time.Now()
				l.now = func() time.Time { return now }
				var evicted []string
				for attempts := 0; attempts < 3 && len(evicted) == 0; attempts++ { // the first ones weigh the pods of all nodes
					_, evicted, _ = l.refuse(first)
					now = now.Add(time.Minute)
				}
				if len(evicted) != 128 || slices.ContainsFunc(evicted, func(name string) bool { return !isOnOneOf(name, 16) }) {
					t.Errorf("%d pods are evicted, want the 128 of the first 16 nodes, which have just begun: %v", len(evicted), evicted)
				}
			})
		}
	}
}

// isOnOneOf reports whether a pod of smallJobs is on one of the first nodes.
func isOnOneOf(name string, nodes int) bool {
	var node, number int
	_, err := fmt.Sscanf(name, "low-%d-%d", &node, &number)
	return err == nil && node < nodes
}

// TestASearchGoesOnWhereItEnded: what takes more steps than one attempt has ends with a result all the same, after some attempts, whichever
// rack it is in that others may leave, and each attempt takes no more steps than it has.
func TestASearchGoesOnWhereItEnded(t *testing.T) {
	const nodes, rack = 600, 20
	for _, how := range []string{"", "required=rack", "preferred=rack", "required=rack;segment=8"} {
		for _, could := range []int{0, 17, nodes/rack - 1, -1} {
			t.Run(fmt.Sprint(how, could), func(t *testing.T) {
				l := smallJobs(t, nodes, rack)
				now := noon
				l.now = func() time.Time { return now }
				l.effort = 12_000
				l.guardAllBut(could*rack, (could+1)*rack)
				first := l.largeGang(16, how)
				var evicted []string
				attempts := 0
				for ; attempts < 100 && len(evicted) == 0; attempts++ {
					cs, _, reason := l.aim(first)
					if reason == "" {
						t.Fatal("it begins")
					}
					_, evicted = l.postFilter(cs, first)
					g := gangOf(first, l.groups.get(mustGroup(first)))
					if l.places.gangs[g].hunt == nil && len(evicted) == 0 {
						break
					}
					now = now.Add(time.Minute)
				}
				t.Logf("%d attempts", attempts)
				if want := 128; could >= 0 && len(evicted) != want || could < 0 && (len(evicted) > 0 || attempts == 100) {
					t.Errorf("%d are evicted after %d attempts", len(evicted), attempts)
				}
			})
		}
	}
}

// guardAllBut has a budget keep the pods of all nodes but some.
func (l *lab) guardAllBut(from, to int) {
	for node, info := range l.infos {
		for _, on := range info.GetPods() {
			if node < from || node >= to {
				on.GetPod().Labels = map[string]string{"app": "kept"}
			}
		}
	}
	l.protects("ns", "kept")
}

func BenchmarkALargePool(b *testing.B) {
	for _, nodes := range []int{100, 1000, 5000, 20_000} {
		l := smallJobs(b, nodes, 40)
		for _, how := range []string{"", "required=rack", "preferred=rack", "required=rack;segment=8"} {
			for _, kept := range []bool{false, true} {
				b.Run(fmt.Sprintf("nodes=%d/%s/kept=%t", nodes, how, kept), func(b *testing.B) {
					l.TB = b
					l.protects("ns")
					if kept {
						l.guardAllBut(0, 0)
					}
					first := l.largeGang(16, how)
					group := l.groups.get(mustGroup(first))
					cs, _, _ := l.aim(first) // reads the cards of all nodes, which is done once
					l.PostFilter(b.Context(), cs, first, nil)
					for !l.Settled() {
						time.Sleep(time.Millisecond)
					}
					worst, attempts := time.Duration(0), 0
					for b.Loop() {
						l.places.drop(gangOf(first, group))
						for {
							m := l.membersOf(first, group)
							bearing := l.bearingOf(l.infos)
							start := cpuTime()
							_, back := l.clearing(b.Context(), gangOf(first, group), group, &m, bearing, nil)
							worst, attempts = max(worst, cpuTime()-start), attempts+1
							if !back.unfinished {
								break
							}
						}
					}
					b.ReportMetric(float64(worst.Microseconds())/1000, "worst-cpu-ms")
					b.ReportMetric(float64(attempts)/float64(b.N), "attempts/op")
				})
			}
		}
	}
}
