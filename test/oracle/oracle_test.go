package oracle

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

// The two nodes of all histories: whole has 4 cards, index-0 to index-3; sharing has 2 of 10512 MiB, of which
// shares can hold 10000.
func nodes() History {
	whole := fixture.Node("whole").GPUs(4, "A100-80G").Obj()
	sharing := fixture.Node("sharing").Label(names.LabelCount, "2").Label(names.LabelNVIDIAMemory, "10512").Obj()
	sharing.Status.Allocatable[names.ResourceSharedGPU] = resource.MustParse("20")
	return History{
		{Revision: 1, Type: watch.Added, Node: whole},
		{Revision: 2, Type: watch.Added, Node: sharing},
	}
}

// wholePod is bound to node whole and holds the cards of the numbers.
func wholePod(name string, cards ...int) *corev1.Pod {
	pod := fixture.Pod(name).GPUs(int64(len(cards))).Obj()
	var devices []string
	for _, card := range cards {
		devices = append(devices, fmt.Sprintf(`{"uuid":"index-%d","index":%d}`, card, card))
	}
	return on("whole", pod, `"main":[`+strings.Join(devices, ",")+`]`)
}

// sharedPod is bound to node sharing and holds memory of one card.
func sharedPod(name string, card, memoryMiB int) *corev1.Pod {
	pod := fixture.Pod(name).Annotate(names.AnnotationGPUShare, fmt.Sprintf("%dMi", memoryMiB)).Obj()
	one := resource.MustParse("1")
	pod.Spec.Containers[0].Resources.Limits[names.ResourceSharedGPU] = one
	pod.Spec.Containers[0].Resources.Requests[names.ResourceSharedGPU] = one
	return on("sharing", pod, fmt.Sprintf(`"main":[{"uuid":"index-%d","index":%d,"memoryMiB":%d}]`, card, card, memoryMiB))
}

func on(node string, pod *corev1.Pod, devices string) *corev1.Pod {
	pod.Namespace, pod.UID = "ns", types.UID(pod.Name)
	pod.Spec.NodeName = node
	if devices != "" {
		pod.Annotations[names.AnnotationGPUDevices] = `{"version":1,"containers":{` + devices + `}}`
	}
	return pod
}

func with(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	change(pod)
	return pod
}

func ended(pod *corev1.Pod) *corev1.Pod {
	return with(pod, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
}

func in(epoch string, pod *corev1.Pod) *corev1.Pod {
	return with(pod, func(p *corev1.Pod) { p.Annotations[names.AnnotationEpoch] = epoch })
}

func pending(pod *corev1.Pod) *corev1.Pod {
	return with(pod, func(p *corev1.Pod) {
		p.Spec.NodeName = ""
		delete(p.Annotations, names.AnnotationGPUDevices)
	})
}

// after continues the nodes' history with a change of each pod, from revision 11 on.
func after(pods ...*corev1.Pod) History {
	h := nodes()
	for i, pod := range pods {
		h = append(h, Event{Revision: int64(11 + i), Type: watch.Modified, Pod: pod})
	}
	return h
}

func TestCheckFindsEachFault(t *testing.T) {
	twoContainers := func(a, b int) *corev1.Pod {
		pod := fixture.Pod("two").GPUs(1).Container("second", 1).Obj()
		return on("whole", pod, fmt.Sprintf(`"main":[{"uuid":"index-%d","index":0}],"second":[{"uuid":"index-%d","index":0}]`, a, b))
	}
	initFirst := on("whole", fixture.Pod("init").GPUs(1).InitContainer("init", 1).Obj(),
		`"init":[{"uuid":"index-0","index":0}],"main":[{"uuid":"index-0","index":0}]`)
	tests := map[string]struct {
		history History
		want    []Violation
	}{
		"pods on different cards": {history: after(wholePod("a", 0, 1), wholePod("b", 2, 3), sharedPod("c", 0, 5000), sharedPod("d", 0, 5000))},
		"a card is held by two pods": {
			history: after(wholePod("a", 0, 1), wholePod("b", 1, 2)),
			want:    []Violation{{Revision: 12, Rule: TwoHolders, Node: "whole", Card: "index-1", Pods: []string{"ns/a", "ns/b"}}},
		},
		"a card is held by a pod after another has ended": {history: after(wholePod("a", 0), ended(wholePod("a", 0)), wholePod("b", 0))},
		"a card is held by a pod before another has ended": {
			history: after(wholePod("a", 0), wholePod("b", 0), ended(wholePod("a", 0))),
			want:    []Violation{{Revision: 12, Rule: TwoHolders, Node: "whole", Card: "index-0", Pods: []string{"ns/a", "ns/b"}}},
		},
		"a terminating pod still holds its card": {
			history: after(with(wholePod("a", 0), func(p *corev1.Pod) { p.DeletionTimestamp = &p.CreationTimestamp }), wholePod("b", 0)),
			want:    []Violation{{Revision: 12, Rule: TwoHolders, Node: "whole", Card: "index-0", Pods: []string{"ns/a", "ns/b"}}},
		},
		"the same card number on another node is another card": {history: after(wholePod("a", 0), sharedPod("b", 0, 10))},
		"a shared card has more memory given away than it has": {
			history: after(sharedPod("a", 1, 4000), sharedPod("b", 1, 6000), sharedPod("c", 1, 1)),
			want: []Violation{{Revision: 13, Rule: OverMemory, Node: "sharing", Card: "index-1",
				Pods: []string{"ns/a", "ns/b", "ns/c"}, Detail: "10001 of 10000 MiB"}},
		},
		"a card is whole for one pod and shared for another": {
			history: after(sharedPod("a", 0, 1), on("sharing", wholePod("b", 0), "")),
			want: []Violation{
				{Revision: 12, Rule: OverAllocatable, Node: "sharing", Pods: []string{"ns/b"}, Detail: "1 of 0 nvidia.com/gpu"},
				{Revision: 12, Rule: Mixed, Node: "sharing", Card: "index-0", Pods: []string{"ns/a", "ns/b"}},
			},
		},
		"a node has more GPUs given away than it offers": {
			history: append(after(wholePod("a", 0, 1)), Event{Revision: 20, Type: watch.Modified, Node: fixture.Node("whole").GPUs(4, "").AllocatableGPUs(2).Obj()},
				Event{Revision: 21, Type: watch.Modified, Pod: wholePod("b", 2)}),
			want: []Violation{{Revision: 21, Rule: OverAllocatable, Node: "whole", Pods: []string{"ns/b"}, Detail: "3 of 2 nvidia.com/gpu"}},
		},
		"a node that loses GPUs under its pods is nobody's fault": {
			history: append(after(wholePod("a", 0, 1)), Event{Revision: 20, Type: watch.Modified, Node: fixture.Node("whole").GPUs(4, "").AllocatableGPUs(1).Obj()}),
		},
		"pods of another scheduler count": {
			history: after(with(on("whole", pending(wholePod("a", 0, 1, 2)), ""), func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }), wholePod("b", 0, 1)),
			want:    []Violation{{Revision: 12, Rule: OverAllocatable, Node: "whole", Pods: []string{"ns/b"}, Detail: "5 of 4 nvidia.com/gpu"}},
		},
		"a bound pod is bound to another node": {
			history: after(wholePod("a", 0), on("gone", pending(wholePod("a", 0)), `"main":[{"uuid":"index-0","index":0}]`)),
			want: []Violation{
				{Revision: 12, Rule: Moved, Node: "whole", Pods: []string{"ns/a"}, Detail: `it is on node "gone" now`},
				{Revision: 12, Rule: OverAllocatable, Node: "gone", Pods: []string{"ns/a"}, Detail: "1 of 0 nvidia.com/gpu"},
				{Revision: 12, Rule: Unfounded, Node: "gone", Card: "index-0", Pods: []string{"ns/a"}, Detail: "the node has no such card"},
			},
		},
		"a bound pod is taken off its node": {
			history: after(wholePod("a", 0), pending(wholePod("a", 0))),
			want:    []Violation{{Revision: 12, Rule: Moved, Node: "whole", Pods: []string{"ns/a"}, Detail: `it is on node "" now`}},
		},
		"a bound pod gets other cards": {
			history: after(wholePod("a", 0), wholePod("a", 1)),
			want: []Violation{{Revision: 12, Rule: Rewritten, Node: "whole", Pods: []string{"ns/a"},
				Detail: fmt.Sprintf("from %q to %q", wholePod("a", 0).Annotations[names.AnnotationGPUDevices], wholePod("a", 1).Annotations[names.AnnotationGPUDevices])}},
		},
		"a pod has no cards named": {
			history: after(on("whole", pending(wholePod("a", 0)), "")),
			want:    []Violation{{Revision: 11, Rule: Unfounded, Node: "whole", Pods: []string{"ns/a"}, Detail: "it has no annotation g8s.host/gpu-devices"}},
		},
		"a pod has fewer cards than it asks for": {
			history: after(with(wholePod("a", 0), func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests[names.ResourceGPU] = resource.MustParse("2")
			})),
			want: []Violation{{Revision: 11, Rule: Unfounded, Node: "whole", Pods: []string{"ns/a"},
				Detail: "container main has 1 whole and 0 shared cards, and asks for 2 and 0"}},
		},
		"a pod has more of a card than it asks for": {
			history: after(with(sharedPod("a", 0, 9), func(p *corev1.Pod) { p.Annotations[names.AnnotationGPUShare] = "8Mi" })),
			want: []Violation{{Revision: 11, Rule: Unfounded, Node: "sharing", Pods: []string{"ns/a"},
				Detail: "container main has 9 MiB of card index-0 and asks for 8"}},
		},
		"a pod has a card that its node has not": {
			history: after(wholePod("a", 7)),
			want:    []Violation{{Revision: 11, Rule: Unfounded, Node: "whole", Card: "index-7", Pods: []string{"ns/a"}, Detail: "the node has no such card"}},
		},
		"two containers of a pod have cards of their own": {history: after(twoContainers(0, 1))},
		"two containers of a pod have the same card": {
			history: after(twoContainers(0, 0)),
			want: []Violation{{Revision: 11, Rule: Unfounded, Node: "whole", Pods: []string{"ns/two"},
				Detail: "container second has card index-0 together with another container"}},
		},
		"leaders follow one another": {
			history: after(pending(wholePod("a", 0)), in("x/1", wholePod("a", 0)), in("y/2", wholePod("b", 1)), in("z/10", wholePod("c", 2))),
		},
		"a leader binds when another has bound": {
			history: after(in("x/9", wholePod("a", 0)), in("y/10", wholePod("b", 1)), in("x/9", wholePod("c", 2))),
			want: []Violation{{Revision: 13, Rule: Stale, Node: "whole", Pods: []string{"ns/c"},
				Detail: "its epoch is x/9, and ns/b of revision 12 has y/10"}},
		},
		"two leaders are of one term": {
			history: after(in("x/9", wholePod("a", 0)), in("y/9", wholePod("b", 1))),
			want: []Violation{{Revision: 12, Rule: Stale, Node: "whole", Pods: []string{"ns/b"},
				Detail: "its epoch is y/9, and ns/a of revision 11 has x/9"}},
		},
		"an epoch is none": {
			history: after(in("x", wholePod("a", 0))),
			want: []Violation{{Revision: 11, Rule: Stale, Node: "whole", Pods: []string{"ns/a"},
				Detail: `reading the epoch "x": strconv.ParseInt: parsing "x": invalid syntax`}},
		},
		"an init container has ended when another gets its card": {history: after(initFirst)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Check(tc.history)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLostFindsPodsThatWereNotPlaced(t *testing.T) {
	gone := func(pod *corev1.Pod) History {
		return append(after(pod), Event{Revision: 12, Type: watch.Deleted, Pod: pod})
	}
	tests := map[string]struct {
		history History
		want    string
	}{
		"it runs":                             {history: after(wholePod("a", 0))},
		"it has finished and was deleted":     {history: gone(ended(wholePod("a", 0)))},
		"it waits still":                      {history: after(pending(wholePod("a", 0))), want: "it was never bound"},
		"it was deleted while it waited":      {history: gone(pending(wholePod("a", 0))), want: "it was never bound"},
		"it was deleted while it ran":         {history: gone(wholePod("a", 0)), want: "it was deleted before it had finished"},
		"it is not known":                     {history: nodes(), want: "it is nowhere in the history"},
		"another of the same name is running": {history: after(with(wholePod("a", 0), func(p *corev1.Pod) { p.UID = "other" })), want: "it is nowhere in the history"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var want []Violation
			if tc.want != "" {
				want = []Violation{{Rule: LostPod, Pods: []string{"ns/a"}, Detail: tc.want}}
			}
			if diff := cmp.Diff(want, Lost(tc.history, []*corev1.Pod{wholePod("a")})); diff != "" {
				t.Errorf("lost pods (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBindingsAreThoseThatHappened(t *testing.T) {
	h := append(nodes(), Event{Revision: 3, Type: watch.Added, Pod: wholePod("before", 0)})
	h = append(h, after(pending(wholePod("a", 1)), in("x/1", wholePod("a", 1)), ended(wholePod("a", 1)))[2:]...)
	want := []Binding{{Revision: 12, Pod: "ns/a", Node: "whole", Epoch: "x/1"}}
	if diff := cmp.Diff(want, h.Bindings()); diff != "" {
		t.Errorf("bindings (-want +got):\n%s", diff)
	}
}

func TestViolationsReadAsOneLine(t *testing.T) {
	got := Violation{Revision: 7, Rule: TwoHolders, Node: "n1", Card: "GPU-1", Pods: []string{"ns/a", "ns/b"}}.String()
	if want := "revision 7: two pods hold the card whole; n1; GPU-1; ns/a, ns/b"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
