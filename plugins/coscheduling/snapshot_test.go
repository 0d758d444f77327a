package coscheduling

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/devices"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/test/fixture"
)

func TestRoomForGangs(t *testing.T) {
	wants := func(gpus int64) *corev1.Pod { return fixture.Pod("p").GPUs(gpus).Obj() }
	node := func(name string) *fixture.NodeBuilder { return fixture.Node(name).GPUs(8, "T4") }
	changed := func(node *corev1.Node, change func(*corev1.Node)) *corev1.Node { change(node); return node }
	tainted := func(key string, effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: key, Effect: effect}} }
	}
	sick := func(cards int) string {
		text := `{"version":1,"gpus":[`
		for i := range 8 {
			health := "Healthy"
			if i < cards {
				health = "Unhealthy"
			}
			text += fmt.Sprintf(`{"uuid":"GPU-%d","index":%d,"memoryMiB":16384,"health":%q},`, i, i, health)
		}
		return text[:len(text)-1] + "]}"
	}
	// One card of 16 GiB, that may be shared 20 times.
	shared := func(name string) *corev1.Node {
		return fixture.Node(name).Label(names.LabelGPUType, "T4").SharedGPUs(1, 20).Label(names.LabelMemory, "16Gi").Obj()
	}
	const (
		fits  = ""
		short = "gang: there is room for %d of %d members now, and all start at once"
		small = "gang: the nodes that suit it have room for %d of %d members, even when they are empty"
	)
	tests := map[string]struct {
		pod     *corev1.Pod
		members int
		placed  int
		nodes   []fwk.NodeInfo
		want    string
	}{
		"room for all":    {wants(8), 2, 0, infos(node("a").Obj(), node("b").Obj()), fits},
		"two on one node": {wants(4), 2, 0, infos(node("a").Obj()), fits},
		"room for one of two, as another pod is in the way": {
			wants(8), 2, 0, []fwk.NodeInfo{nodeInfo(node("a").Obj()), nodeInfo(node("b").Obj(), fixture.Pod("x").GPUs(1).Obj())}, fmt.Sprintf(short, 1, 2),
		},
		"members that have a place need none": {
			wants(8), 2, 1, []fwk.NodeInfo{nodeInfo(node("a").Obj(), wants(8)), nodeInfo(node("b").Obj())}, fits,
		},
		"too few nodes even when empty": {wants(8), 2, 0, infos(node("a").Obj()), fmt.Sprintf(small, 1, 2)},
		"nodes of another pool are no room": {
			wants(8), 2, 0, infos(node("a").Obj(), node("b").Pool("other").Obj()), fmt.Sprintf(small, 1, 2),
		},
		"nodes of another type are no room": {
			fixture.Pod("p").GPUs(8).Type("T4").Obj(), 2, 0, infos(node("a").Obj(), fixture.Node("b").GPUs(8, "A10").Obj()), fmt.Sprintf(small, 1, 2),
		},
		"nodes that the pod's affinity leaves out are no room": {
			fixture.Pod("p").GPUs(8).Require("zone", "z1").Obj(), 2, 0, infos(node("a").Label("zone", "z1").Obj(), node("b").Label("zone", "z2").Obj()), fmt.Sprintf(small, 1, 2),
		},
		"a cordoned node is no room now": {
			wants(8), 2, 0, infos(node("a").Obj(), changed(node("b").Obj(), func(n *corev1.Node) { n.Spec.Unschedulable = true })), fmt.Sprintf(short, 1, 2),
		},
		"an empty node that is not ready is no room now": {
			wants(8), 2, 0, infos(node("a").Obj(), changed(node("b").Obj(), tainted(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule))), fmt.Sprintf(short, 1, 2),
		},
		"a node that is kept for others is none at all": {
			wants(8), 2, 0, infos(node("a").Obj(), changed(node("b").Obj(), tainted("team", corev1.TaintEffectNoExecute))), fmt.Sprintf(small, 1, 2),
		},
		"a taint that only asks to stay away is room": {wants(8), 2, 0, infos(node("a").Obj(), node("b").AvoidIfPossible().Obj()), fits},
		"a taint that the pods tolerate is room": {
			func() *corev1.Pod {
				p := wants(8)
				p.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
				return p
			}(), 2, 0, infos(node("a").Obj(), changed(node("b").Obj(), tainted("team", corev1.TaintEffectNoSchedule))), fits,
		},
		"a node with a card that is not healthy has one less": {
			wants(8), 2, 0, infos(node("a").Obj(), node("b").Annotate(names.AnnotationInventory, sick(1)).Obj()), fmt.Sprintf(small, 1, 2),
		},
		"and has room for those who need less": {wants(4), 3, 0, infos(node("a").Obj(), node("b").Annotate(names.AnnotationInventory, sick(4)).Obj()), fits},
		"slots are not memory": {
			fixture.Pod("p").SharedGPUs(1, "10Gi").Obj(), 3, 0, infos(shared("a"), shared("b")), fmt.Sprintf(small, 2, 3),
		},
		"shares of one card": {fixture.Pod("p").SharedGPUs(1, "5Gi").Obj(), 6, 0, infos(shared("a"), shared("b")), fits},
		"no room for more pods": {
			wants(0), 3, 0, infos(changed(node("a").Obj(), func(n *corev1.Node) {
				n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("2")
			})), fmt.Sprintf(small, 2, 3),
		},
		"without GPUs there is nearly always room": {fixture.Pod("p").Obj(), 99, 0, infos(fixture.Node("a").Obj()), fits},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			waiting := []placement.PodClass{{Pod: tc.pod, Count: tc.members - tc.placed}}
			seats, err := placement.NewSlots(waiting)
			if err != nil {
				t.Fatal(err)
			}
			found := placement.ClusterSnapshot{Nodes: tc.nodes, DeviceCache: devices.NewCache()}.CapacityFor(waiting, seats, tc.placed)
			if got := found.RefusalReason(tc.members); got != tc.want {
				t.Errorf("got %q of %+v, want %q", got, found, tc.want)
			}
		})
	}
}

func infos(nodes ...*corev1.Node) (all []fwk.NodeInfo) {
	for _, node := range nodes {
		all = append(all, nodeInfo(node))
	}
	return all
}

func TestMinResources(t *testing.T) {
	nodes := infos(fixture.Node("a").GPUs(8, "T4").Obj(), fixture.Node("b").GPUs(8, "T4").Obj())
	pools := infos(fixture.Node("a").Pool("gold").GPUs(8, "T4").Obj(), fixture.Node("b").Pool("silver").GPUs(8, "T4").Obj())
	seatsIn := func(pool string) []placement.PodSlot {
		seats, err := placement.NewSlots([]placement.PodClass{{Pod: fixture.Pod("m").Pool(pool).GPUs(8).Obj(), Count: 2}})
		if err != nil {
			t.Fatal(err)
		}
		return seats
	}
	member := fixture.Pod("m").GPUs(8).Obj()
	member.Spec.NodeName = "a"
	tests := map[string]struct {
		want   map[corev1.ResourceName]float64
		placed []*corev1.Pod
		seats  []placement.PodSlot
		nodes  []fwk.NodeInfo
		lacks  corev1.ResourceName
	}{
		"none are asked for":                             {nodes: nodes},
		"the nodes have them":                            {want: map[corev1.ResourceName]float64{names.ResourceGPU: 16, "cpu": 256}, nodes: nodes},
		"there are too few GPUs":                         {want: map[corev1.ResourceName]float64{names.ResourceGPU: 17}, nodes: nodes, lacks: names.ResourceGPU},
		"nobody offers it":                               {want: map[corev1.ResourceName]float64{"x.io/y": 1}, nodes: nodes, lacks: "x.io/y"},
		"others hold some":                               {want: map[corev1.ResourceName]float64{names.ResourceGPU: 16}, nodes: []fwk.NodeInfo{nodes[0], nodeInfo(nodes[1].Node(), member)}, lacks: names.ResourceGPU},
		"members may use one pool, and another has them": {want: map[corev1.ResourceName]float64{names.ResourceGPU: 9}, seats: seatsIn("gold"), nodes: pools, lacks: names.ResourceGPU},
		"the pool of the members has them":               {want: map[corev1.ResourceName]float64{names.ResourceGPU: 8}, seats: seatsIn("gold"), nodes: pools},
		"members of two kinds may use two pools":         {want: map[corev1.ResourceName]float64{names.ResourceGPU: 16}, seats: append(seatsIn("gold"), seatsIn("silver")...), nodes: pools},
		"it is the gang's own that hold them":            {want: map[corev1.ResourceName]float64{names.ResourceGPU: 16}, placed: []*corev1.Pod{member}, nodes: []fwk.NodeInfo{nodes[0], nodeInfo(nodes[1].Node(), member)}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := placement.LackingResource(tc.want, tc.placed, tc.seats, tc.nodes); got != tc.lacks {
				t.Errorf("lacks %q, want %q", got, tc.lacks)
			}
		})
	}
}

func TestAlike(t *testing.T) {
	worker := fixture.Pod("a").GPUs(8).Obj()
	if !placement.HaveSameDemand(worker, fixture.Pod("b").GPUs(8).Obj()) {
		t.Error("two workers are not alike")
	}
	tolerant := fixture.Pod("b").GPUs(8).Obj()
	tolerant.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	for what, other := range map[string]*corev1.Pod{
		"a launcher without GPUs": fixture.Pod("b").Obj(), "a worker in another pool": fixture.Pod("b").GPUs(8).Pool("x").Obj(),
		"a worker of another type":                 fixture.Pod("b").GPUs(8).Annotate(names.AnnotationGPUTypes, "T4").Obj(),
		"a worker with a helper":                   fixture.Pod("b").GPUs(8).Container("c", 1).Obj(),
		"a worker that asks for more memory of it": fixture.Pod("b").GPUs(8).Annotate(names.AnnotationGPUMemoryMin, "40Gi").Obj(),
		"a worker in one zone":                     fixture.Pod("b").GPUs(8).Require("zone", "z1").Obj(),
		"a worker that tolerates all":              tolerant,
	} {
		if placement.HaveSameDemand(worker, other) {
			t.Errorf("a worker is taken to be like %s", what)
		}
	}
}

// TestKindsAreBounded: who writes pods of a megabyte, or a thousand that all differ, does not have all of it compared in
// each cycle.
func TestKindsAreBounded(t *testing.T) {
	huge := fixture.Pod("p").Require("zone", "z").Obj()
	values := make([]string, 50_000)
	huge.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions[0].Values = values
	for name, pod := range map[string]func(int) *corev1.Pod{
		"pods that all differ": func(i int) *corev1.Pod { return fixture.Pod("p").CPU(int64(i + 1)).Obj() },
		"pods of a megabyte":   func(int) *corev1.Pod { return huge.DeepCopy() },
	} {
		t.Run(name, func(t *testing.T) {
			var k placement.PodClasses
			for i := range 20 {
				k.AddPod(pod(i))
			}
			if !k.Varied || len(k.Classes) > placement.MaxKinds || k.Compared > placement.MaxCompared+2*len(values) {
				t.Errorf("%d kinds, %d compared, varied: %t", len(k.Classes), k.Compared, k.Varied)
			}
		})
	}
}

// TestTheRoomIsCountedOnceForAGang while nothing changes, and again when something has.
func TestTheRoomIsCountedOnceForAGang(t *testing.T) {
	l := newLab(t, 1)
	l.group("g", map[string]any{"minMember": int64(2)})
	a, b := l.member("a"), l.member("b")
	first, _ := l.try(a)
	g := gangOf(a, l.groups.GetGroup(mustGroup(a)))
	keep := func(s *phase.Gang) {
		v := s.LastVerdict()
		v.Reason = "kept"
		s.RecordVerdict(v)
	}
	l.gangs.changeState(g, keep)
	if again, _ := l.try(b); again != "kept" {
		t.Errorf("the second member is told %q, want what was kept", again)
	}
	changes := map[string]func(){
		"a node has come": func() { l.infos = append(l.infos, nodeInfo(fixture.Node("new").Obj())) },
		"a pod has come to a node": func() {
			l.infos[0].AddPodInfo(podInfo(t, fixture.Pod("x").Obj()))
		},
		"the PodGroup was changed": func() {
			l.group("g", map[string]any{"minMember": int64(2)}, func(g *unstructured.Unstructured) { g.SetResourceVersion("2") })
		},
		"a member asks for other": func() { l.member("b", func(p *corev1.Pod) { p.Labels[names.LabelPool] = "x" }) },
	}
	for name, change := range changes {
		l.gangs.changeState(g, keep)
		change()
		if again, _ := l.try(a); again == "kept" || again == "" {
			t.Errorf("%s: the member is told %q, want what is true now, as %q was", name, again, first)
		}
	}
}

func BenchmarkRoomFor(b *testing.B) {
	for _, count := range []int{1000, 5000} {
		var nodes []fwk.NodeInfo
		for i := range count {
			var pods []*corev1.Pod
			for j := range 30 {
				pods = append(pods, fixture.Pod(fmt.Sprintf("p-%d-%d", i, j)).Label("app", "x").Label("b", "c").Obj())
			}
			nodes = append(nodes, nodeInfo(fixture.Node(fmt.Sprint("n", i)).GPUs(8, "T4").Obj(), pods...))
		}
		pod, ledger := fixture.Pod("m").GPUs(9).Obj(), devices.NewCache()
		waiting := []placement.PodClass{{Pod: pod, Count: 8}}
		seats, err := placement.NewSlots(waiting)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint("nodes=", count), func(b *testing.B) {
			for b.Loop() {
				placement.ClusterSnapshot{Nodes: nodes, DeviceCache: ledger}.CapacityFor(waiting, seats, 0)
			}
		})
	}
}

// BenchmarkALargeGang is what one attempt of a member costs that is turned away: while members are missing, and when there
// is no room for all.
func BenchmarkALargeGang(b *testing.B) {
	for name, missing := range map[string]int{"a member is missing": 1, "there is no room": 0} {
		for _, count := range []int{100, 2000, 10_000} {
			b.Run(fmt.Sprintf("%s/members=%d", name, count), func(b *testing.B) {
				l := newLab(b, 2)
				l.group("g", map[string]any{"minMember": int64(count)})
				for i := range count - missing {
					l.member(fmt.Sprint("m-", i))
				}
				pod := l.member("m-0")
				for b.Loop() {
					if reason, _ := l.try(pod); reason == "" {
						b.Fatal("it has a place")
					}
				}
			})
		}
	}
}
