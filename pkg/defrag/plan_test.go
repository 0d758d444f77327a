package defrag

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/test/fixture"
)

var now = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// running is a pod of a Job that has run for an hour.
func running(name, node string, gpus int64, change ...func(*corev1.Pod)) corev1.Pod {
	pod := fixture.Pod(name).GPUs(gpus).Obj()
	pod.Namespace, pod.Spec.NodeName = "team", node
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: name, Controller: ptr.To(true)}}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: now.Add(-time.Hour)}}
	for _, c := range change {
		c(pod)
	}
	return *pod
}

func waiting(name string, gpus int64, change ...func(*corev1.Pod)) corev1.Pod {
	pod := fixture.Pod(name).GPUs(gpus).Obj()
	pod.Namespace = "team"
	for _, c := range change {
		c(pod)
	}
	return *pod
}

// sharing returns a running pod that holds so much of one card.
func sharing(name, node, memory string, cpu int64, card int, change ...func(*corev1.Pod)) corev1.Pod {
	of := fixture.Pod(name).SharedGPUs(1, memory).CPU(cpu).Obj()
	size := resource.MustParse(memory)
	held := gpu.Assignment{"main": {{UUID: fixture.UUID(node, card), Index: card, MemoryMiB: size.Value() >> 20}}}
	return running(name, node, 0, append([]func(*corev1.Pod){func(pod *corev1.Pod) {
		pod.Spec.Containers = of.Spec.Containers
		maps.Copy(pod.Annotations, of.Annotations)
		pod.Annotations[names.AnnotationGPUDevices], _ = held.Encode() // of what was just written
	}}, change...)...)
}

// TestPodsThatShareCardsStayOnThemUntilTheyMove: h would fit on n if s1 and s2 held one card there. They hold one each.
func TestPodsThatShareCardsStayOnThemUntilTheyMove(t *testing.T) {
	node := func(name, cpu string, cards ...int64) corev1.Node {
		node := fixture.Node(name).SharedGPUs(len(cards), 10*len(cards)).Annotate(names.AnnotationInventory, fixture.Cards(name, cards...).Annotation(t)).Obj()
		node.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse(cpu)
		return *node
	}
	fixed := func(pod *corev1.Pod) { pod.OwnerReferences = nil }
	wide := *fixture.Pod("w").SharedGPUs(1, "9000Mi").CPU(5).Obj()
	wide.Namespace = "team"
	facts := &Facts{
		Now:   now,
		Nodes: []corev1.Node{node("t", "5", 10000), node("n", "5", 10000, 10000), node("m", "3", 10000)},
		Running: []corev1.Pod{
			sharing("f", "t", "2000Mi", 3, 0), sharing("s1", "n", "4000Mi", 3, 0), sharing("s2", "n", "4000Mi", 1, 1, fixed),
			sharing("h", "m", "8000Mi", 1, 0),
		},
		Waiting: []corev1.Pod{wide},
	}
	if diff := cmp.Diff([]string{"w: " + whyNowhere.String()}, summary(Plan(facts, DefaultLimits))); diff != "" {
		t.Errorf("advice (-want +got):\n%s", diff)
	}
	facts.Running[2] = sharing("s2", "n", "4000Mi", 1, 0, fixed)
	if diff := cmp.Diff([]string{"w -> t, h m -> n, f t -> m"}, summary(Plan(facts, DefaultLimits))); diff != "" {
		t.Errorf("advice where both hold one card (-want +got):\n%s", diff)
	}
}

func label(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels[key] = value }
}

func priority(value int32) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Priority = &value }
}

// smallNode is a node with a GPU and 2 cores.
func smallNode(name string) corev1.Node {
	node := fixture.Node(name).GPUs(1, "A100-80G").Obj()
	node.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("2")
	return *node
}

func cpu(cores int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewQuantity(cores, resource.DecimalSI)
	}
}

// nodesOf8 are nodes with 8 GPUs each.
func nodesOf8(names ...string) []corev1.Node {
	out := make([]corev1.Node, len(names))
	for i, name := range names {
		out[i] = *fixture.Node(name).GPUs(8, "A100-80G").Obj()
	}
	return out
}

// summary is an advice in short: "waiting -> node: pod from -> to, ..." and "waiting: why".
func summary(advice Advice) []string {
	out := []string{}
	for _, p := range advice.Proposals {
		text := p.Pod + " -> " + p.Node
		for _, m := range p.Moves {
			text += fmt.Sprintf(", %s %s -> %s", m.Pod, m.From, m.To)
		}
		out = append(out, text)
	}
	for _, u := range advice.Unhelped {
		out = append(out, u.Pod+": "+u.Why.String())
	}
	return out
}

func TestPlan(t *testing.T) {
	gang := label(names.LabelPodGroup, "gang")
	tests := map[string]struct {
		facts  Facts
		limits *Limits
		want   []string
	}{
		"one small pod stands on the emptier of two nodes, and moves to the other": {
			facts: Facts{
				Nodes:   nodesOf8("a", "b"),
				Running: []corev1.Pod{running("small", "a", 1), running("five", "b", 5), running("two", "b", 2)},
				Waiting: []corev1.Pod{waiting("eight", 8)},
			},
			want: []string{"eight -> a, small a -> b"},
		},
		"fewer moves count more than fewer cards": {
			facts: Facts{
				Nodes: nodesOf8("a", "b", "c"),
				Running: []corev1.Pod{running("a1", "a", 1), running("a2", "a", 1), running("b4", "b", 4),
					running("c4", "c", 4)},
				Waiting: []corev1.Pod{waiting("eight", 8)},
			},
			want: []string{"eight -> b, b4 b -> c"},
		},
		"among as few moves, those of fewer cards": {
			facts: Facts{
				Nodes:   nodesOf8("a", "b", "c"),
				Running: []corev1.Pod{running("a3", "a", 3), running("b2", "b", 2), running("c4", "c", 4)},
				Waiting: []corev1.Pod{waiting("eight", 8)},
			},
			want: []string{"eight -> b, b2 b -> c"},
		},
		"a pod that fits needs no moves, and takes the place for the next": {
			facts: Facts{
				Nodes:   nodesOf8("a", "b"),
				Running: []corev1.Pod{running("small", "a", 1)},
				Waiting: []corev1.Pod{waiting("eight", 8), waiting("more", 8, func(pod *corev1.Pod) { pod.Name = "more" })},
			},
			want: []string{"eight -> b", "more: " + whyNowhere.String()},
		},
		"the higher priority is helped first, then the longer wait": {
			facts: Facts{
				Nodes: nodesOf8("a"),
				Waiting: []corev1.Pod{waiting("late", 8, func(pod *corev1.Pod) { pod.CreationTimestamp.Time = now }),
					waiting("early", 8), waiting("high", 8, priority(10), func(pod *corev1.Pod) { pod.CreationTimestamp.Time = now })},
			},
			want: []string{"high -> a", "early: " + whyFixed.String(), "late: " + whyFixed.String()},
		},
		"nothing is moved that would not come back": {
			facts: Facts{
				Nodes:   nodesOf8("a", "b"),
				Running: []corev1.Pod{running("naked", "a", 1, func(pod *corev1.Pod) { pod.OwnerReferences = nil }), running("b", "b", 7, priority(1))},
				Waiting: []corev1.Pod{waiting("eight", 8)},
			},
			want: []string{"eight: " + whyFixed.String()},
		},
		"a pod of a higher priority stays": {
			facts: Facts{
				Nodes:   nodesOf8("a", "b"),
				Running: []corev1.Pod{running("high", "a", 1, priority(10)), running("b", "b", 8)},
				Waiting: []corev1.Pod{waiting("eight", 8, priority(5))},
			},
			want: []string{"eight: " + whyNowhere.String()},
		},
		"a pod that has only started stays": {
			facts: Facts{
				Nodes: nodesOf8("a", "b"),
				Running: []corev1.Pod{running("new", "a", 1, func(pod *corev1.Pod) { pod.Status.StartTime.Time = now.Add(-time.Minute) }),
					running("b", "b", 7)},
				Waiting: []corev1.Pod{waiting("eight", 8)},
			},
			want: []string{"eight -> b, b b -> a"},
		},
		"what only --min-run keeps is told": {
			facts: Facts{
				Nodes:   nodesOf8("a", "b"),
				Running: []corev1.Pod{running("new", "a", 1, func(pod *corev1.Pod) { pod.Status.StartTime.Time = now.Add(-time.Minute) }), running("b", "b", 8, priority(1))},
				Waiting: []corev1.Pod{waiting("eight", 8)},
			},
			want: []string{"eight: " + whyYoung.String()},
		},
		"more cores than any node has are no matter of what is in the way": {
			facts: Facts{
				Nodes:   nodesOf8("a"),
				Running: []corev1.Pod{running("a1", "a", 1)},
				Waiting: []corev1.Pod{waiting("eight", 8, cpu(9000))},
			},
			want: []string{"eight: " + whyNoNode.String()},
		},
		"its author keeps a pod where it is": {
			facts: Facts{
				Nodes: nodesOf8("a", "b", "c"),
				Running: []corev1.Pod{running("kept", "a", 1, func(pod *corev1.Pod) { pod.Annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] = "false" }),
					running("free", "b", 2), running("c", "c", 6)},
				Waiting: []corev1.Pod{waiting("eight", 8)},
			},
			want: []string{"eight -> b, free b -> c"},
		},
		"a disruption budget that allows none protects its pods": {
			facts: Facts{
				Nodes:   nodesOf8("a", "b", "c"),
				Running: []corev1.Pod{running("guarded", "a", 1, label("app", "x")), running("free", "b", 2), running("c", "c", 6)},
				Waiting: []corev1.Pod{waiting("eight", 8)},
				Budgets: []policyv1.PodDisruptionBudget{{
					ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "x"},
					Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}},
				}},
			},
			want: []string{"eight -> b, free b -> c"},
		},
		"a gang is not taken apart": {
			facts: Facts{
				Nodes:   nodesOf8("a", "b", "c"),
				Running: []corev1.Pod{running("member", "a", 1, gang), running("free", "b", 2), running("c", "c", 6)},
				Waiting: []corev1.Pod{waiting("eight", 8)},
			},
			want: []string{"eight -> b, free b -> c"},
		},
		"a gang is helped whole": {
			facts: Facts{
				Nodes:   nodesOf8("a", "b", "c"),
				Running: []corev1.Pod{running("a1", "a", 1), running("b1", "b", 1), running("c4", "c", 4)},
				Waiting: []corev1.Pod{waiting("rank-0", 8, gang), waiting("rank-1", 8, gang)},
			},
			want: []string{"rank-0 -> a, a1 a -> c", "rank-1 -> b, b1 b -> c"},
		},
		"a gang of which one pod cannot be helped is not, and what was planned for it is free again": {
			facts: Facts{
				Nodes:   nodesOf8("a", "b"),
				Running: []corev1.Pod{running("a1", "a", 1), running("b7", "b", 7)},
				Waiting: []corev1.Pod{waiting("rank-0", 8, gang, priority(1)), waiting("rank-1", 8, gang, priority(1)), waiting("single", 8)},
			},
			want: []string{"single -> a, a1 a -> b", "rank-0: " + whyGang.String(), "rank-1: " + whyFixed.String()},
		},
		"no more moves than the limit": {
			facts: Facts{
				Nodes:   nodesOf8("a", "b"),
				Running: []corev1.Pod{running("a1", "a", 1), running("a2", "a", 1), running("a3", "a", 1), running("b", "b", 4)},
				Waiting: []corev1.Pod{waiting("eight", 8)},
			},
			limits: &Limits{Moves: 0},
			want:   []string{"eight: " + whyNowhere.String()},
		},
		"what no node has is not made by moves": {
			facts: Facts{Nodes: nodesOf8("a"), Waiting: []corev1.Pod{waiting("sixteen", 16)}},
			want:  []string{"sixteen: " + whyNoNode.String()},
		},
		"a pod of another scheduler would come back": {
			facts: Facts{
				Nodes: nodesOf8("a", "b", "c"),
				Running: []corev1.Pod{running("foreign", "a", 1, func(pod *corev1.Pod) { pod.Spec.SchedulerName = "default-scheduler" }),
					running("free", "b", 2), running("c", "c", 6)},
				Waiting: []corev1.Pod{waiting("eight", 8)},
			},
			want: []string{"eight -> b, free b -> c"},
		},
		"a pod without GPUs is moved when CPU is short": {
			facts: Facts{
				Nodes:   append(nodesOf8("a"), *fixture.Node("plain").Obj()),
				Running: []corev1.Pod{running("cpu", "a", 0, cpu(60))},
				Waiting: []corev1.Pod{waiting("eight", 8, cpu(100))},
			},
			want: []string{"eight -> a, cpu a -> plain"},
		},
		"a pod takes the place of another, which goes first": {
			facts: Facts{
				Nodes: append(nodesOf8("a", "b", "c"), smallNode("d")),
				Running: []corev1.Pod{running("thirsty", "a", 1, cpu(100)), running("modest", "b", 1, cpu(1)),
					running("rest-b", "b", 7, cpu(4), priority(1)), running("rest-c", "c", 8, cpu(4), priority(1))},
				Waiting: []corev1.Pod{waiting("eight", 8, cpu(64))},
			},
			want: []string{"eight -> a, modest b -> d, thirsty a -> b"},
		},
		"another pool is no place to go": {
			facts: Facts{
				Nodes:   append(nodesOf8("a"), *fixture.Node("other").Pool("other").GPUs(8, "A100-80G").Obj()),
				Running: []corev1.Pod{running("a1", "a", 1)},
				Waiting: []corev1.Pod{waiting("eight", 8)},
			},
			want: []string{"eight: " + whyNowhere.String()},
		},
		"what the pod asks is malformed": {
			facts: Facts{Nodes: nodesOf8("a"), Waiting: []corev1.Pod{waiting("bad", 1, func(pod *corev1.Pod) {
				pod.Annotations[names.AnnotationGPUMemoryMin] = "much"
			})}},
			want: []string{`bad: what it asks cannot be read: reading annotation g8s.host/gpu-memory-min: "much" is no amount of memory: write one such as 2Gi`},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			limits := DefaultLimits
			if tc.limits != nil {
				limits = *tc.limits
			}
			tc.facts.Now = now
			got := summary(Plan(&tc.facts, limits))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("advice (-want +got):\n%s", diff)
			}
		})
	}
}
