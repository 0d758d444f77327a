package coscheduling

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/test/fixture"
)

// BenchmarkAGangThatWaits is what an attempt of a gang costs the scheduling loop, after something has changed, on 5,000 nodes
// in racks of 16 that are full, but for one node in each rack: too few for 512 members, and for 12 in one rack.
func BenchmarkAGangThatWaits(b *testing.B) {
	for name, tc := range map[string]struct {
		layout string
		// minus says that some of the pods on nodes are of lower priority, but too few.
		minus bool
	}{
		"that has no layout":              {},
		"that has a layout":               {layout: "required=rack"},
		"that has others leave in vain":   {minus: true},
		"that has others leave in a rack": {minus: true, layout: "required=rack"},
		"that is to lie in segments":      {minus: true, layout: "required=rack;segment=2"},
		"that is to lie on one node":      {minus: true, layout: "required=kubernetes.io/hostname"},
	} {
		b.Run(name, func(b *testing.B) {
			l := newLab(b, 0)
			l.answers()
			for i := range 5_000 {
				node := fixture.Node(fmt.Sprintf("n%04d", i)).GPUs(8, "T4").Label(names.LabelRack, fmt.Sprint("r", i/16)).Label(corev1.LabelHostname, fmt.Sprintf("n%04d", i)).Obj()
				var pods []*corev1.Pod
				for j := range 4 {
					pod := fixture.Pod(fmt.Sprintf("p-%d-%d", i, j)).GPUs(2).Obj()
					pod.Spec.NodeName = node.Name
					if tc.minus && i%200 == 0 { // too few to be of use
						ofPriority(-1)(pod)
					}
					if i%16 > 0 {
						pods = append(pods, pod)
					}
				}
				l.infos = append(l.infos, nodeInfo(node, pods...))
			}
			members := 512
			if tc.layout != "" {
				members = 12
			}
			l.group("g", map[string]any{"minMember": int64(members)}, laidOut(tc.layout))
			var first *corev1.Pod
			for i := range members {
				first = l.member(fmt.Sprint("m", i))
			}
			g := gangOf(first, l.groups.GetGroup(mustGroup(first)))
			l.aim(first) // reads the cards of all nodes, which is done once
			before := cpuTime()
			defer func() {
				b.ReportMetric(float64((cpuTime()-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			}()
			for b.Loop() {
				cs, _, reason := l.aim(first)
				if reason == "" {
					b.Fatal("it begins")
				}
				if result, _ := l.PostFilter(b.Context(), cs, first, nil); result != nil {
					b.Fatal("others leave")
				}
				l.gangs.changeState(g, func(s *phase.Gang) {
					s.RecordVerdict(phase.Verdict{On: phase.Basis{Nodes: 1}}) // something has changed
					s.MarkUnhelpful(time.Time{}, "", "", false)
					s.RecordVerdict(phase.Verdict{})
				})
			}
		})
	}
}

// BenchmarkAMemberThatJoins is what an attempt costs of one of 10,000 members that come one by one to a gang which stands, on 5,000
// nodes in racks of 16.
func BenchmarkAMemberThatJoins(b *testing.B) {
	for name, tc := range map[string]struct{ layout, member string }{
		"one rack":                      {"required=rack", "m-%d"},
		"segments":                      {"required=rack;segment=16", "m-%d"},
		"segments of nobody's number":   {"required=rack;segment=16", "m-%d-x"},
		"segments that are preferred":   {"preferred=rack;segment=16", "m-%d"},
		"segments of as many as it has": {"required=rack;segment=10000", "m-%d"},
	} {
		b.Run(name, func(b *testing.B) {
			l := newLab(b, 0)
			for i := range 5_000 {
				node := fixture.Node(fmt.Sprintf("n%04d", i)).GPUs(8, "T4").Label(names.LabelRack, fmt.Sprint("r", i/16)).Obj()
				l.infos = append(l.infos, nodeInfo(node))
			}
			l.group("g", map[string]any{"minMember": int64(1)}, laidOut(tc.layout))
			var last *corev1.Pod
			for i := range placement.MaxMembers {
				last = l.member(fmt.Sprintf(tc.member, i))
			}
			l.aim(last) // reads the cards of all nodes, which is done once
			for b.Loop() {
				l.aim(last)
			}
		})
	}
}

// ownTime is what the calling thread has used, which a test has locked itself to: that of the loop, without a garbage collector beside it.
func ownTime() time.Duration {
	var usage unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// cpuTime is what the process has used, which other processes do not change.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
