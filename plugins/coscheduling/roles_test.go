package coscheduling

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestRolesOfTwoTypesAreCountedInTheirOwnQuotas: of a gang with a launcher on one GPU type and workers on another, each role counts in
// the GPUQuota of its own type alone. It starts where both quotas have enough, whichever member is tried first.
func TestRolesOfTwoTypesAreCountedInTheirOwnQuotas(t *testing.T) {
	l := newLab(t, 4)
	for i := range l.infos {
		if i > 0 {
			l.infos[i].Node().Labels["g8s.host/gpu-type"] = "H100"
		} else {
			l.infos[i].Node().Labels["g8s.host/gpu-type"] = "L40S"
		}
	}
	l.group("g", map[string]any{"minMember": int64(4)})
	ofType := func(gpuType string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Annotations = map[string]string{names.AnnotationGPUTypes: gpuType} }
	}
	launcher := l.member("launcher", ofApp("l", 4), ofType("L40S"))
	workers := []*corev1.Pod{l.member("w0", ofType("H100")), l.member("w1", ofType("H100")), l.member("w2", ofType("H100"))}
	small, large := quotaOf("ns", 0, 8), quotaOf("ns", 0, 24)
	small.Name, small.Spec.GPUType = "l40s", "L40S"
	large.Name, large.Spec.GPUType = "h100", "H100"
	l.share(small, large)
	for _, pod := range append(workers, launcher) {
		if _, _, reason := l.aim(pod); reason != "" {
			t.Errorf("%s is turned away: %s; want it to begin, with 4 of 8 L40S and 24 of 24 H100", pod.Name, reason)
		}
	}
}

// TestTwoRolesThatCompeteForTheLastNodeHaveOthersEvicted: a gang of a launcher and a worker that each take a node, of which one is idle and the
// other holds a job of lower priority, has that job evicted. Room is not to be counted for each role as if the other took none: then the gang
// begins, gives up, and begins again for ever, and who begins evicts nobody and is promised nothing.
func TestTwoRolesThatCompeteForTheLastNodeHaveOthersEvicted(t *testing.T) {
	for _, roles := range []int{1, 2} {
		l := newLab(t, 2)
		l.answers()
		l.group("g", map[string]any{"minMember": int64(2)})
		idle := l.infos[0].Node()
		l.running(1, "low", 5, ofPriority(-1))
		cores := func(amount string) func(*corev1.Pod) {
			return func(pod *corev1.Pod) {
				pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount), names.ResourceGPU: resource.MustParse("8")}
			}
		}
		launcher, worker := l.member("launcher", cores("1")), l.member("worker", cores(fmt.Sprint(roles)))
		var evicted []string
		begun := 0
		for range 3 { // as often as it is tried
			cs, _, reason := l.aim(launcher)
			if reason != "" { // it is seen that there is too little room
				_, evicted = l.postFilter(cs, launcher)
				break
			}
			begun++
			l.Permit(t.Context(), cs, launcher, idle.Name)
			held := l.hold(launcher)
			assumed := launcher.DeepCopy()
			assumed.Spec.NodeName = idle.Name
			l.infos[0] = nodeInfo(idle, assumed)
			if cs, _, reason = l.aim(worker); reason != "" {
				t.Fatalf("the worker is turned away: %s", reason)
			}
			if _, evicted = l.postFilter(cs, worker); len(evicted) > 0 { // no filter has let it on a node
				break
			}
			if held.refused == "" {
				t.Fatal("the launcher keeps its place")
			}
			l.held = nil
			l.infos[0] = nodeInfo(idle)
		}
		if !slices.Equal(evicted, []string{"low"}) {
			t.Errorf("%d roles: it has begun %d times, and %v are evicted for it, want low", roles, begun, evicted)
		}
	}
}

// TestTheSameIsSaidOfTheSame: of a gang with more members than it needs, which ask for different things, the same members are counted in a quota each
// time. The order in which an index of the informers lists them is another one each time, and a replay would decide something else.
func TestTheSameIsSaidOfTheSame(t *testing.T) {
	l := newLab(t, 8)
	l.group("g", map[string]any{"minMember": int64(2)})
	m := l.member("m")
	for i := range 4 {
		l.member(fmt.Sprint("small-", i), ofApp("s", 1))
		l.member(fmt.Sprint("large-", i))
	}
	l.share(quotaOf("ns", 0, 12))
	said := map[string]int{}
	for range 100 {
		_, _, reason := l.aim(m)
		said[reason]++
	}
	if len(said) != 1 {
		t.Errorf("it is told different things of the same cluster: %v", said)
	}
}
