package oracle

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/watch"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

const small = "1g.10gb"

// cutNode has 2 cards: 0 is whole, and 1 is cut into three slices of 1g.10gb.
func cutNode(t *testing.T) Event {
	cards := fixture.Cards("cut", 81920, 81920).Sliced(small, 3, 1).Annotation(t)
	return Event{Revision: 1, Type: watch.Added, Node: fixture.Node("cut").GPUs(1, "").Slices(small, 3).Annotate(names.AnnotationInventory, cards).Obj()}
}

// slicesJSON are slices of card 1 as a container holds them.
func slicesJSON(profile string, numbers ...int) string {
	var all []string
	card := fixture.UUID("cut", 1)
	for _, number := range numbers {
		all = append(all, fmt.Sprintf(`{"uuid":%q,"profile":%q,"card":%q,"gpu":1}`, fixture.SliceUUID(card, number), profile, card))
	}
	return "[" + strings.Join(all, ",") + "]"
}

// sliced is bound to node cut, with the annotation's fields.
func sliced(pod *corev1.Pod, fields string) *corev1.Pod {
	pod = on("cut", pod, "")
	pod.Annotations = map[string]string{names.AnnotationGPUDevices: `{"version":1,` + fields + `}`}
	return pod
}

// slicePod holds the slices of the numbers.
func slicePod(name string, numbers ...int) *corev1.Pod {
	return sliced(fixture.Pod(name).Slices(small, int64(len(numbers))).Obj(), `"slices":{"main":`+slicesJSON(small, numbers...)+`}`)
}

// asking is a container of a pod that asks for slices.
func asking(name string, count string) corev1.Container {
	list := corev1.ResourceList{names.ResourceMIGPrefix + small: resource.MustParse(count)}
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}
}

func TestCheckFindsEachFaultOfSlices(t *testing.T) {
	slice0, slice1 := fixture.SliceUUID(fixture.UUID("cut", 1), 0), fixture.SliceUUID(fixture.UUID("cut", 1), 1)
	unfounded := func(pod, slice, detail string) []Violation {
		return []Violation{{Revision: 11, Rule: Unfounded, Node: "cut", Card: slice, Pods: []string{"ns/" + pod}, Detail: detail}}
	}
	two := func(first, second int) *corev1.Pod {
		pod := fixture.Pod("two").Slices(small, 1).Obj()
		pod.Spec.Containers = append(pod.Spec.Containers, asking("second", "1"))
		return sliced(pod, fmt.Sprintf(`"slices":{"main":%s,"second":%s}`, slicesJSON(small, first), slicesJSON(small, second)))
	}
	initFirst := fixture.Pod("init").Slices(small, 1).Obj()
	initFirst.Spec.InitContainers = []corev1.Container{asking("init", "2")}
	whole := func(name, card string) *corev1.Pod {
		return sliced(fixture.Pod(name).GPUs(1).Obj(), fmt.Sprintf(`"containers":{"main":[{"uuid":%q,"index":0}]}`, card))
	}
	tests := map[string]struct {
		pods []*corev1.Pod
		want []Violation
	}{
		"pods on different slices, and on the card beside": {pods: []*corev1.Pod{slicePod("a", 0, 1), slicePod("b", 2), whole("c", fixture.UUID("cut", 0))}},
		"a slice is held by a pod after another has ended": {pods: []*corev1.Pod{slicePod("a", 0), ended(slicePod("a", 0)), slicePod("b", 0)}},
		"a slice is held by two pods": {
			pods: []*corev1.Pod{slicePod("a", 0, 1), slicePod("b", 1)},
			want: []Violation{{Revision: 12, Rule: SliceTwice, Node: "cut", Card: slice1, Pods: []string{"ns/a", "ns/b"}}},
		},
		"a slice of a card that a pod holds whole": {
			pods: []*corev1.Pod{whole("a", fixture.UUID("cut", 1)), slicePod("b", 0, 1)},
			want: []Violation{
				{Revision: 11, Rule: Unfounded, Node: "cut", Card: fixture.UUID("cut", 1), Pods: []string{"ns/a"}, Detail: "the node has no such card"},
				{Revision: 12, Rule: CardAndSlice, Node: "cut", Card: fixture.UUID("cut", 1), Pods: []string{"ns/a", "ns/b"}},
			},
		},
		"a card of which a pod holds slices": {
			pods: []*corev1.Pod{slicePod("a", 0, 1), whole("b", fixture.UUID("cut", 1))},
			want: []Violation{
				{Revision: 12, Rule: Unfounded, Node: "cut", Card: fixture.UUID("cut", 1), Pods: []string{"ns/b"}, Detail: "the node has no such card"},
				{Revision: 12, Rule: CardAndSlice, Node: "cut", Card: fixture.UUID("cut", 1), Pods: []string{"ns/a", "ns/b"}},
			},
		},
		"a pod holds a card and a slice of it": {
			pods: []*corev1.Pod{sliced(fixture.Pod("a").GPUs(1).Slices(small, 1).Obj(),
				fmt.Sprintf(`"containers":{"main":[{"uuid":%q,"index":1}]},"slices":{"main":%s}`, fixture.UUID("cut", 1), slicesJSON(small, 0)))},
			want: []Violation{
				{Revision: 11, Rule: Unfounded, Node: "cut", Card: fixture.UUID("cut", 1), Pods: []string{"ns/a"}, Detail: "the node has no such card"},
				{Revision: 11, Rule: CardAndSlice, Node: "cut", Card: fixture.UUID("cut", 1), Pods: []string{"ns/a"}},
			},
		},
		"a slice that its node has not": {
			pods: []*corev1.Pod{slicePod("a", 7)}, want: unfounded("a", fixture.SliceUUID(fixture.UUID("cut", 1), 7), "the node has no such MIG slice"),
		},
		"a slice of another size than it is said to be": {
			pods: []*corev1.Pod{sliced(fixture.Pod("a").Slices("2g.20gb", 1).Obj(), `"slices":{"main":`+slicesJSON("2g.20gb", 0)+`}`)},
			want: []Violation{
				{Revision: 11, Rule: OverAllocatable, Node: "cut", Pods: []string{"ns/a"}, Detail: "1 of 0 nvidia.com/mig-2g.20gb"},
				unfounded("a", slice0, "it is a 1g.10gb of card GPU-cut-1, and the pod has it as a 2g.20gb of card GPU-cut-1")[0],
			},
		},
		"a slice of another card than it is said to be of": {
			pods: []*corev1.Pod{with(slicePod("a", 0), func(p *corev1.Pod) {
				text := p.Annotations[names.AnnotationGPUDevices]
				p.Annotations[names.AnnotationGPUDevices] = strings.Replace(text, `"card":"GPU-cut-1"`, `"card":"GPU-cut-0"`, 1)
			})},
			want: unfounded("a", slice0, "it is a 1g.10gb of card GPU-cut-1, and the pod has it as a 1g.10gb of card GPU-cut-0"),
		},
		"a pod has another profile than it asks for": {
			pods: []*corev1.Pod{sliced(fixture.Pod("a").Slices(small, 1).Obj(), `"slices":{"main":`+slicesJSON("2g.20gb", 0)+`}`)},
			want: unfounded("a", "", "container main has 0 MIG slices of 1g.10gb and asks for 1"),
		},
		"a pod has fewer slices than it asks for": {
			pods: []*corev1.Pod{sliced(fixture.Pod("a").Slices(small, 2).Obj(), `"slices":{"main":`+slicesJSON(small, 0)+`}`)},
			want: unfounded("a", "", "container main has 1 MIG slices of 1g.10gb and asks for 2"),
		},
		"a container has slices that it does not ask for": {
			pods: []*corev1.Pod{sliced(fixture.Pod("a").Slices(small, 1).Obj(),
				`"slices":{"main":`+slicesJSON(small, 0)+`,"other":`+slicesJSON(small, 1)+`}`)},
			want: unfounded("a", "", "container other has 1 MIG slices of 1g.10gb and asks for 0"),
		},
		"a pod that asks for slices has a card": {
			pods: []*corev1.Pod{sliced(fixture.Pod("a").Slices(small, 1).Obj(),
				fmt.Sprintf(`"containers":{"main":[{"uuid":%q,"index":0}]},"slices":{"main":%s}`, fixture.UUID("cut", 0), slicesJSON(small, 0)))},
			want: unfounded("a", "", "1 containers have cards and 0 ask for them"),
		},
		"a pod has no slices named": {
			pods: []*corev1.Pod{on("cut", fixture.Pod("a").Slices(small, 1).Obj(), "")}, want: unfounded("a", "", "it has no annotation g8s.host/gpu-devices"),
		},
		"a pod has its card named and no slices": {
			pods: []*corev1.Pod{sliced(fixture.Pod("a").GPUs(1).Slices(small, 1).Obj(),
				fmt.Sprintf(`"containers":{"main":[{"uuid":%q,"index":0}]}`, fixture.UUID("cut", 0)))},
			want: unfounded("a", "", "container main has 0 MIG slices of 1g.10gb and asks for 1"),
		},
		"a node has more slices given away than it offers": {
			pods: []*corev1.Pod{with(slicePod("a", 0, 1), func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }), slicePod("b", 1, 2)},
			want: []Violation{{Revision: 12, Rule: OverAllocatable, Node: "cut", Pods: []string{"ns/b"}, Detail: "4 of 3 nvidia.com/mig-1g.10gb"}},
		},
		"two containers of a pod have slices of their own": {pods: []*corev1.Pod{two(0, 1)}},
		"two containers of a pod have the same slice": {
			pods: []*corev1.Pod{two(0, 0)}, want: unfounded("two", "", "container second has MIG slice "+slice0+" together with another container"),
		},
		"an init container has ended when another gets its slice": {
			pods: []*corev1.Pod{sliced(initFirst, fmt.Sprintf(`"slices":{"init":%s,"main":%s}`, slicesJSON(small, 0, 1), slicesJSON(small, 1)))},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			history := History{cutNode(t)}
			for i, pod := range tc.pods {
				history = append(history, Event{Revision: int64(11 + i), Type: watch.Modified, Pod: pod})
			}
			if diff := cmp.Diff(tc.want, Check(history)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSlicesOfANodeThatNamesNone are counted by Kubernetes alone, and the node's agent takes them.
func TestSlicesOfANodeThatNamesNone(t *testing.T) {
	node := Event{Revision: 1, Type: watch.Added, Node: fixture.Node("cut").Slices(small, 3).Obj()}
	unnamed := Event{Revision: 2, Type: watch.Modified, Pod: on("cut", fixture.Pod("a").Slices(small, 1).Obj(), "")}
	if got := Check(History{node, unnamed}); len(got) > 0 {
		t.Errorf("slices that nobody can name are found wrong: %v", got)
	}
	invented := Event{Revision: 2, Type: watch.Modified, Pod: slicePod("a", 0)}
	want := []Violation{{Revision: 2, Rule: Unfounded, Node: "cut", Card: fixture.SliceUUID(fixture.UUID("cut", 1), 0), Pods: []string{"ns/a"},
		Detail: "the node has no such MIG slice"}}
	if diff := cmp.Diff(want, Check(History{node, invented})); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
}
