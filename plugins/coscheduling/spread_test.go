package coscheduling

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/parallelize"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/podtopologyspread"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/preemption"
	"g8s.host/gpu-scheduler/test/fixture"
)

// parallel is the handle of Kubernetes' PodTopologySpread.
type parallel struct{ handle }

func (parallel) Parallelizer() fwk.Parallelizer { return parallelize.NewParallelizer(1) }

// TestSpreadAgreesWithKubernetes: pods come and go, and after each of them its own filter, which counts anew, has the same to say
// of every node.
func TestSpreadAgreesWithKubernetes(t *testing.T) {
	metrics.Register()
	l := newLab(t, 0)
	plugin, err := podtopologyspread.New(t.Context(), &config.PodTopologySpreadArgs{DefaultingType: config.ListDefaulting},
		parallel{handle{lab: l}}, feature.Features{EnableNodeInclusionPolicyInPodTopologySpread: true, EnableMatchLabelKeysInPodTopologySpread: true})
	if err != nil {
		t.Fatal(err)
	}
	theirs := plugin.(*podtopologyspread.PodTopologySpread)
	refused := 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		nodes, pod := unevenNodes(random), spreading(random)
		ours := placement.NewSpreadState(pod, nodes)
		for step := range 12 {
			state := framework.NewCycleState()
			if _, status := theirs.PreFilter(t.Context(), state, pod, nodes); !status.IsSuccess() {
				t.Fatal(status)
			}
			for _, info := range nodes {
				status := theirs.Filter(t.Context(), state, pod, info)
				want := status.Code() == fwk.Unschedulable // without a label a node is no matter of numbers
				if got := ours.ViolatedKey(info.Node()) != ""; got != want && status.Code() != fwk.UnschedulableAndUnresolvable {
					t.Fatalf("seed %d, step %d: %s is refused: %v, want %v; counted %v", seed, step, info.Node().Name, got, want, ours.Rules)
				}
				if want {
					refused++
				}
			}
			info := nodes[random.IntN(len(nodes))]
			if on := info.GetPods(); len(on) > 0 && random.IntN(3) == 0 {
				gone := on[0].GetPod()
				if err := info.RemovePod(klog.Background(), gone); err != nil {
					t.Fatal(err)
				}
				ours.RecordPod(gone, info.Node(), -1)
				continue
			}
			come := spreading(random)
			come.Name = fmt.Sprint("come", step)
			added, err := framework.NewPodInfo(come)
			if err != nil {
				t.Fatal(err)
			}
			info.AddPodInfo(added)
			ours.RecordPod(come, info.Node(), 1)
		}
	}
	if refused < 1000 {
		t.Errorf("%d nodes were refused: too few to tell anything", refused)
	}
}

// unevenNodes are up to eight nodes in racks and zones; some have no rack, some are tainted, and pods are on some.
func unevenNodes(random *rand.Rand) (nodes []fwk.NodeInfo) {
	for i := range 2 + random.IntN(7) {
		node := fixture.Node(fmt.Sprint("n", i)).GPUs(8, "T4").Label("kind", fmt.Sprint(random.IntN(2))).
			Label(corev1.LabelTopologyZone, fmt.Sprint("z", random.IntN(2))).Obj()
		if random.IntN(5) > 0 {
			node.Labels[names.LabelRack] = fmt.Sprint("r", random.IntN(4))
		}
		if random.IntN(4) == 0 {
			node.Spec.Taints = []corev1.Taint{{Key: "ill", Effect: corev1.TaintEffectNoSchedule}}
		}
		var pods []*corev1.Pod
		for p := range random.IntN(3) {
			pod := spreading(random)
			pod.Name = fmt.Sprint("old", i, p)
			if random.IntN(5) == 0 {
				leaving(pod)
			}
			pods = append(pods, pod)
		}
		nodes = append(nodes, nodeInfo(node, pods...))
	}
	return nodes
}

// spreading is a pod with one or two constraints.
func spreading(random *rand.Rand) *corev1.Pod {
	policies := []*corev1.NodeInclusionPolicy{nil, ptr.To(corev1.NodeInclusionPolicyHonor), ptr.To(corev1.NodeInclusionPolicyIgnore)}
	pod := fixture.Pod("m").GPUs(8).Label("app", fmt.Sprint(random.IntN(2))).Label("version", fmt.Sprint(random.IntN(2))).Obj()
	pod.Namespace, pod.UID = fmt.Sprint("ns", random.IntN(2)), types.UID(fmt.Sprint(random.Uint64()))
	if random.IntN(2) == 0 {
		pod.Spec.NodeSelector = map[string]string{"kind": "0"}
	}
	for _, key := range []string{names.LabelRack, corev1.LabelTopologyZone}[random.IntN(2):] {
		constraint := corev1.TopologySpreadConstraint{
			MaxSkew: int32(1 + random.IntN(2)), TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector:      &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(random.IntN(2))}},
			NodeAffinityPolicy: policies[random.IntN(3)], NodeTaintsPolicy: policies[random.IntN(3)],
		}
		if random.IntN(3) == 0 {
			constraint.MinDomains = ptr.To(int32(1 + random.IntN(4)))
		}
		if random.IntN(3) == 0 {
			constraint.MatchLabelKeys = []string{"version"}
		}
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, constraint)
	}
	return pod
}

// TestAGangThatSpreadsIsPlannedInAllItsDomains: nobody leaves for two members of one rack where there may be one.
func TestAGangThatSpreadsIsPlannedInAllItsDomains(t *testing.T) {
	for _, members := range []int{2, 3, 5, 8} {
		t.Run(fmt.Sprint(members), func(t *testing.T) {
			l := newRacks(t, 16)
			l.answers()
			l.among(&filters{}) // Kubernetes' own lets two in: it follows two domains
			l.group("g", map[string]any{"minMember": int64(members)})
			for i := range 16 {
				l.running(i, fmt.Sprint("low", i), 100-i, ofPriority(-1))
			}
			var first *corev1.Pod
			for i := range members {
				pod := l.member(fmt.Sprint("m", i), func(pod *corev1.Pod) {
					pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: names.LabelRack, WhenUnsatisfiable: corev1.DoNotSchedule,
						LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{names.LabelPodGroup: "g"}},
					}}
				})
				if i == 0 {
					first = pod
				}
			}
			_, evicted, nominated := l.refuse(first)
			if len(evicted) != members || len(nominated) != members {
				t.Fatalf("%v are evicted, %v nominated, told %q; want %d", evicted, nominated, l.told, members)
			}
			racks := map[string]bool{}
			for _, low := range evicted {
				var i int
				if _, err := fmt.Sscanf(low, "low%d", &i); err != nil {
					t.Fatal(err)
				}
				racks[l.infos[i].Node().Labels[names.LabelRack]] = true
			}
			if len(racks) != members {
				t.Errorf("%v are evicted, in %d racks, want one in each of %d", evicted, len(racks), members)
			}
		})
	}
}

// TestManyConstraintsAreTakenOnTrust: who writes thousands keeps no others waiting while they are counted on every node.
func TestManyConstraintsAreTakenOnTrust(t *testing.T) {
	l := newRacks(t, 4)
	l.among(&filters{})
	pod := l.member("m", func(pod *corev1.Pod) {
		pod.Spec.TopologySpreadConstraints = make([]corev1.TopologySpreadConstraint, 1000)
		for i := range pod.Spec.TopologySpreadConstraints {
			pod.Spec.TopologySpreadConstraints[i] = corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: names.LabelRack, WhenUnsatisfiable: corev1.DoNotSchedule}
		}
	})
	r := &preemption.DryRun{DryRunner: l.dryRunner(), NodeDomain: &placement.NodeDomain{}, Ctx: t.Context(), Filters: handle{lab: l}, ClassByHash: map[uint64]*preemption.FilterClass{}, Left: preemption.MaxDryRunSteps}
	r.ClusterSnapshot.Nodes = make([]fwk.NodeInfo, 5000) // which nobody looks at
	if part, refused := r.ClassOf(pod, 0); part != nil || refused != nil || r.Left >= 0 {
		t.Errorf("they are counted: %v, %v, with %d steps left", part, refused, r.Left)
	}
}
