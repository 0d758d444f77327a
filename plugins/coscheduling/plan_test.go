package coscheduling

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/test/fixture"
)

// newRacks has nodes with 8 cards each in racks of two: n0 and n1 in r0, n2 and n3 in r1.
func newRacks(t testing.TB, nodes int, busy ...int) *lab {
	t.Helper()
	l := newLab(t, nodes)
	for i := range l.infos {
		node := fixture.Node(fmt.Sprint("n", i)).GPUs(8, []string{"T4", "A100"}[i/2%2]).Label(names.LabelRack, fmt.Sprint("r", i/2)).Obj()
		l.infos[i] = nodeInfo(node)
		if slices.Contains(busy, i) {
			l.infos[i] = nodeInfo(node, fixture.Pod(fmt.Sprint("busy", i)).GPUs(8).Obj())
		}
	}
	return l
}

func laidOut(how string) func(*unstructured.Unstructured) {
	return func(group *unstructured.Unstructured) {
		group.SetAnnotations(map[string]string{names.AnnotationTopology: how})
	}
}

// aim takes a member through PreFilter, and returns the nodes that it may go to, or why it is turned away.
func (l *lab) aim(pod *corev1.Pod) (cs fwk.CycleState, nodes []string, reason string) {
	l.Helper()
	cs = framework.NewCycleState()
	result, status := l.PreFilter(l.Context(), cs, pod, l.infos)
	if status.IsRejected() {
		return cs, nil, status.Message()
	}
	if result != nil {
		nodes = slices.Sorted(slices.Values(result.NodeNames.UnsortedList()))
	}
	return cs, nodes, ""
}

// settle aims a member and has it take its place.
func (l *lab) settle(pod *corev1.Pod) string {
	l.Helper()
	cs, nodes, reason := l.aim(pod)
	if reason != "" || len(nodes) != 1 {
		l.Fatalf("%s may go to %v, told %q", pod.Name, nodes, reason)
	}
	for i, info := range l.infos {
		status := l.Filter(l.Context(), cs, pod, info)
		if status.IsSuccess() != (info.Node().Name == nodes[0]) {
			l.Errorf("%s is to go to %s; at %s Filter says %v", pod.Name, nodes[0], info.Node().Name, status)
		}
		if status.IsSuccess() {
			placed := pod.DeepCopy()
			placed.Spec.NodeName = nodes[0]
			var all []*corev1.Pod
			for _, other := range info.GetPods() {
				all = append(all, other.GetPod())
			}
			l.infos[i] = nodeInfo(info.Node(), append(all, placed)...)
		}
	}
	if status, _ := l.Permit(l.Context(), cs, pod, nodes[0]); status.IsWait() {
		l.hold(pod)
	}
	return nodes[0]
}

func TestAGangLiesAsItsPodGroupSays(t *testing.T) {
	tests := map[string]struct {
		layout  string
		nodes   int
		busy    []int
		members int
		change  func(*corev1.Pod)
		want    string // the nodes of the members in order, or what they are told
	}{
		"in the rack that has room":                 {layout: "required=rack", nodes: 4, busy: []int{1}, members: 2, want: "n2 n3"},
		"beside each other where that is preferred": {layout: "preferred=rack", nodes: 4, busy: []int{1}, members: 2, want: "n2 n3"},
		"in two racks where that is preferred, those of one rack in a row": {layout: "preferred=rack", nodes: 4, busy: []int{1}, members: 3,
			want: "n0 n2 n3"},
		"nowhere now, where one rack has to hold them": {layout: "required=rack", nodes: 4, busy: []int{1, 3}, members: 2,
			want: "gang: no rack has room for all 2 members now; the most is 1 in r0"},
		"nowhere ever": {layout: "required=rack", nodes: 4, busy: []int{1}, members: 3,
			want: "gang: no rack takes all 3 members, even when it is empty; the most is 2 in r0"},
		"nowhere, as no node has the label": {layout: "required=zone", nodes: 2, members: 2,
			want: "gang: no node that suits it has the label topology.kubernetes.io/zone, which would name its zone"},
		"in one domain by a label of the administrators": {layout: "required=" + names.LabelRack, nodes: 4, busy: []int{0}, members: 2, want: "n2 n3"},
		"on the type that is named first, though it spans racks": {layout: "preferred=rack", nodes: 8, busy: []int{3, 7}, members: 2,
			change: func(pod *corev1.Pod) { pod.Annotations = map[string]string{names.AnnotationGPUTypes: "A100,T4"} }, want: "n2 n6"},
		"on several, where one type is not enough": {layout: "required=rack", nodes: 8, busy: []int{3, 7}, members: 2,
			change: func(pod *corev1.Pod) { pod.Annotations = map[string]string{names.AnnotationGPUTypes: "A100,T4"} }, want: "n0 n1"},
		"one on a node, if they keep each other away": {layout: "required=rack", nodes: 4, busy: []int{0}, members: 2, change: func(pod *corev1.Pod) {
			pod.Spec.Containers = fixture.Pod("x").GPUs(2).Obj().Spec.Containers
			pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname,
					LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{names.LabelPodGroup: "g"}}}},
			}}
		}, want: "n2 n3"},
		"all on one node, if there is room":  {layout: "preferred=rack", nodes: 4, busy: []int{0}, members: 4, change: smaller(2), want: "n1 n1 n1 n1"},
		"where that is to be is misspelt":    {layout: "required=rak", nodes: 4, members: 2, want: "gang: the PodGroup cannot be used: the annotation g8s.host/topology is \"required=rak\", want required=<level>"},
		"how that is to be is misspelt":      {layout: "near=rack", nodes: 4, members: 2, want: "gang: the PodGroup cannot be used: the annotation g8s.host/topology is \"near=rack\", want"},
		"a label that no node could have":    {layout: "required=a/b/c", nodes: 4, members: 2, want: "gang: the PodGroup cannot be used"},
		"nothing is said, so the scores say": {nodes: 4, members: 2, want: "anywhere"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newRacks(t, tc.nodes, tc.busy...)
			l.group("g", map[string]any{"minMember": int64(tc.members)}, laidOut(tc.layout))
			var pods []*corev1.Pod
			for i := range tc.members {
				pods = append(pods, l.member(fmt.Sprint("m", i), func(pod *corev1.Pod) {
					if tc.change != nil {
						tc.change(pod)
					}
				}))
			}
			if _, nodes, reason := l.aim(pods[len(pods)-1]); reason != "" || nodes == nil {
				if reason == "" {
					reason = "anywhere"
				}
				if !strings.HasPrefix(reason, tc.want) || tc.want == "" {
					t.Errorf("told %q, want %q", reason, tc.want)
				}
				return
			}
			on := make([]string, len(pods))
			for i := range pods { // the last one is tried first, and plans for all
				on[len(pods)-1-i] = l.settle(pods[len(pods)-1-i])
			}
			if got := strings.Join(on, " "); got != tc.want {
				t.Errorf("the members are on %s, want %s", got, tc.want)
			}
		})
	}
}

func smaller(gpus int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers = fixture.Pod("x").GPUs(gpus).Obj().Spec.Containers
	}
}

// TestANodeThatAnotherPluginRejectsIsLeftOut: the plan knows nothing of volumes. The others keep their places, and after two
// nodes members look for places themselves, where they may.
func TestANodeThatAnotherPluginRejectsIsLeftOut(t *testing.T) {
	for layout, last := range map[string][]string{"required=rack": {"n2", "n3"}, "preferred=rack": nil} {
		t.Run(layout, func(t *testing.T) {
			l := newRacks(t, 8, 0, 4)
			l.group("g", map[string]any{"minMember": int64(1)}, laidOut(layout))
			pod := l.member("a")
			l.group("g", map[string]any{"minMember": int64(2)}, laidOut(layout))
			l.member("b")
			var rejected []string
			for range placement.MaxExcludedNodes {
				cs, nodes, reason := l.aim(pod)
				if reason != "" || len(nodes) != 1 || slices.Contains(rejected, nodes[0]) {
					t.Fatalf("after %v it may go to %v, told %q", rejected, nodes, reason)
				}
				rejected = append(rejected, nodes[0])
				_, status := l.PostFilter(t.Context(), cs, pod, nil)
				if got := l.tried(); !strings.Contains(status.Message(), reasonElsewhere) || !slices.Contains(got, "ns/a") {
					t.Fatalf("PostFilter: %v; %v are tried", status, got)
				}
			}
			cs, nodes, reason := l.aim(pod)
			if layout == "required=rack" { // one node of each rack that was free is rejected
				if want := "gang: no rack has room for all 2 members now; the most is 1 in r0"; reason != want {
					t.Errorf("may go to %v, told %q, want %q", nodes, reason, want)
				}
				return
			}
			if reason != "" || !slices.Equal(nodes, last) {
				t.Errorf("after %v it may go to %v, told %q; want %v", rejected, nodes, reason, last)
			}
			l.PostFilter(t.Context(), cs, pod, nil) // it finds no place
			if _, nodes, _ := l.aim(pod); len(nodes) != 1 {
				t.Errorf("when the gang begins anew it may go to %v, want a node by a new plan", nodes)
			}
		})
	}
}

// TestMembersWithoutAPlanStayInTheRack that has to hold them.
func TestMembersWithoutAPlanStayInTheRack(t *testing.T) {
	l := newRacks(t, 8, 0)
	l.group("g", map[string]any{"minMember": int64(2)}, laidOut("required=rack"))
	first := l.member("a")
	l.member("b")
	g := gangOf(first, l.groups.GetGroup(mustGroup(first)))
	l.gangs.setPlan(g, &placement.Plan{})
	for _, node := range []string{"n2", "n4"} {
		if !l.gangs.excludeNode(g, node) {
			t.Fatalf("%s is one too many", node)
		}
	}
	if l.gangs.excludeNode(g, "n6") {
		t.Error("three nodes are left out")
	}
	if _, nodes, reason := l.aim(first); !slices.Equal(nodes, []string{"n6", "n7"}) || reason != "" {
		t.Errorf("may go to %v, told %q", nodes, reason)
	}
}

// TestAMemberThatComesBackStaysBesideTheOthers, and may evict there as any pod may.
func TestAMemberThatComesBackStaysBesideTheOthers(t *testing.T) {
	for layout, want := range map[string][]string{"required=rack": {"n2", "n3"}, "preferred=rack": nil, "": nil} {
		t.Run(layout, func(t *testing.T) {
			l := newRacks(t, 6, 2, 3)
			l.group("g", map[string]any{"minMember": int64(2)}, laidOut(layout))
			l.member("a", boundTo("n2"))
			back := l.member("b")
			cs, nodes, reason := l.aim(back)
			if reason != "" || !slices.Equal(nodes, want) {
				t.Fatalf("may go to %v, told %q; want %v", nodes, reason, want)
			}
			tries := cs.Clone()
			if status := l.RemovePod(t.Context(), tries, back, nil, l.infos[3]); !status.IsSuccess() {
				t.Fatal(status)
			}
			if status := l.Filter(t.Context(), tries, back, l.infos[3]); !status.IsSuccess() {
				t.Errorf("when the pod on n3 is evicted: %v", status)
			}
			if status := l.Filter(t.Context(), tries, back, l.infos[5]); status.IsSuccess() != (want == nil) {
				t.Errorf("in another rack: %v", status)
			}
		})
	}
}

// TestALauncherLiesWithItsWorkers, which ask for something else.
func TestALauncherLiesWithItsWorkers(t *testing.T) {
	l := newRacks(t, 6, 0, 5)
	l.group("g", map[string]any{"minMember": int64(3)}, laidOut("required=rack"))
	launcher := l.member("launcher", smaller(1))
	workers := []*corev1.Pod{l.member("w0", smaller(7)), l.member("w1", smaller(8))}
	got := l.settle(launcher) + " " + l.settle(workers[0]) + " " + l.settle(workers[1])
	if got != "n2 n2 n3" && got != "n3 n3 n2" {
		t.Errorf("launcher and workers are on %s", got)
	}
}
