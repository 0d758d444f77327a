package coscheduling

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/preemption"
)

// filters are those of other plugins.
type filters struct {
	pre func(*corev1.Pod) (*fwk.PreFilterResult, *fwk.Status)
	// at is asked of a member on a node as it is then.
	at func(*corev1.Pod, fwk.NodeInfo) *fwk.Status
	// come and left are the pods that the plugins were told of.
	come, left []string
	asked      int
}

// among has the framework run the filters of other plugins.
func (l *lab) among(f *filters) {
	l.others = f
	l.framework = preemption.Framework{
		State:   func() fwk.CycleState { return framework.NewCycleState() },
		PodInfo: func(pod *corev1.Pod) (fwk.PodInfo, error) { return framework.NewPodInfo(pod) },
	}
}

func (h handle) RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	if _, status := h.PreFilter(ctx, state, pod, h.infos); !status.IsSkip() {
		h.Errorf("a rehearsal is an attempt: %v", status)
	}
	if h.others.asked++; h.others.pre == nil {
		return nil, nil, nil
	}
	result, status := h.others.pre(pod)
	return result, status, nil
}

func (h handle) RunFilterPlugins(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
	if h.others.at == nil {
		return nil
	}
	return h.others.at(pod, info)
}

func (h handle) RunPreFilterExtensionAddPod(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, add fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	h.others.come = append(h.others.come, add.GetPod().Name)
	return nil
}

func (h handle) RunPreFilterExtensionRemovePod(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, remove fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	h.others.left = append(h.others.left, remove.GetPod().Name)
	return nil
}

// wontDo says that no eviction would help.
func wontDo(why string) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, why).WithPlugin("Other")
}

// TestNobodyLeavesForAGangThatIsKeptOut by another plugin, whose say on the whole plan is heard before.
func TestNobodyLeavesForAGangThatIsKeptOut(t *testing.T) {
	notOn := func(nodes ...string) func(*corev1.Pod, fwk.NodeInfo) *fwk.Status {
		return func(_ *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
			if slices.Contains(nodes, info.Node().Name) {
				return wontDo("no volume")
			}
			return nil
		}
	}
	for name, tc := range map[string]struct {
		filters filters
		evicted []string
		told    string
	}{
		"nothing is said against the plan": {evicted: []string{"new"}},
		"nowhere": {filters: filters{pre: func(*corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) { return nil, wontDo("no claim") }},
			told: "gang: nobody is evicted for it, which would be in vain: Other: no claim"},
		"nowhere of what it needs":                    {filters: filters{at: notOn("n1", "n2")}, told: "gang: nobody is evicted for it, which would be in vain: Other: no volume"},
		"not where the new one is":                    {filters: filters{at: notOn("n1")}, evicted: []string{"old"}},
		"not where one of both is, and one idle node": {filters: filters{at: notOn("n1", "n3")}, told: "gang: nobody is evicted for it, which would be in vain: Other: no volume"},
		"on nodes that another plugin names": {filters: filters{pre: func(*corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
			return &fwk.PreFilterResult{NodeNames: sets.New("n0", "n2", "n3")}, nil
		}}, evicted: []string{"old"}},
		"what passes when others leave": {filters: filters{pre: func(*corev1.Pod) (*fwk.PreFilterResult, *fwk.Status) {
			return nil, fwk.NewStatus(fwk.Unschedulable, "later")
		}}, evicted: []string{"new"}},
		"who leaves is not there any more": {filters: filters{at: func(_ *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
			for _, on := range info.GetPods() {
				if on.GetPod().Name == "new" {
					return wontDo("beside new")
				}
			}
			return nil
		}}, evicted: []string{"new"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newRacks(t, 4)
			l.answers()
			l.among(&tc.filters)
			l.group("g", map[string]any{"minMember": int64(3)})
			l.running(0, "old", 60, ofPriority(-1))
			l.running(1, "new", 5, ofPriority(-1))
			first := l.member("m0")
			l.member("m1")
			l.member("m2")
			node, evicted, nominated := l.refuse(first)
			if !slices.Equal(evicted, tc.evicted) || (node != "") != (tc.evicted != nil) || l.told != tc.told {
				t.Fatalf("%v are evicted for a place on %q, told %q; want %v, told %q", evicted, node, l.told, tc.evicted, tc.told)
			}
			if tc.evicted == nil {
				if len(nominated) > 0 {
					t.Errorf("nominated: %v", nominated)
				}
				if _, evicted, _ := l.refuse(first); len(evicted) > 0 || l.told != tc.told {
					t.Errorf("tried again, %v are evicted, told %q", evicted, l.told)
				}
				return
			}
			if !slices.Equal(l.others.come[len(l.others.come)-3:], []string{"m0", "m1", "m2"}) || !slices.Contains(l.others.left, tc.evicted[0]) {
				t.Errorf("the plugins are told that %v come and %v leave", l.others.come, l.others.left)
			}
		})
	}
}

// TestAFullNodeHidesNoVolume: the filter that says a node is full comes before the one that knows where the volume of a member is,
// and of many nodes that one only has a few. The nodes that it does not have are known at the first refusal, however full.
func TestAFullNodeHidesNoVolume(t *testing.T) {
	for name, tc := range map[string]struct {
		affinity *corev1.Affinity
		evicted  []string
	}{
		"of any pod":                     {evicted: []string{"low3", "low6"}},
		"of one that is drawn to others": {affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newRacks(t, 12)
			l.answers()
			l.among(&filters{at: func(_ *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
				if len(info.GetPods()) > 0 {
					return fwk.NewStatus(fwk.Unschedulable, "full").WithPlugin("Fit")
				}
				if !slices.Contains([]string{"n3", "n6"}, info.Node().Name) {
					return wontDo("no volume")
				}
				return nil
			}})
			l.group("g", map[string]any{"minMember": int64(2)})
			for i := range 12 {
				l.running(i, fmt.Sprint("low", i), 60-i, ofPriority(-1))
			}
			first := l.member("m0", func(pod *corev1.Pod) { pod.Spec.Affinity = tc.affinity })
			l.member("m1", func(pod *corev1.Pod) { pod.Spec.Affinity = tc.affinity })
			if _, evicted, _ := l.refuse(first); !slices.Equal(evicted, tc.evicted) {
				t.Errorf("%v are evicted, want %v, told %q", evicted, tc.evicted, l.told)
			}
			if came, left := len(l.others.come), len(l.others.left); tc.affinity == nil && left < 12 || came == 0 && left > 12 {
				t.Errorf("the plugins are told that %d pods come and %d leave", came, left)
			}
		})
	}
}

// TestDevicesOfThoseWhoLeaveAreFree by then, which Kubernetes' DynamicResources cannot know: it reads ResourceClaims, and
// those of the victims are there still.
func TestDevicesOfThoseWhoLeaveAreFree(t *testing.T) {
	claims := func(pod *corev1.Pod) { pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "nic"}} }
	implied := func(pod *corev1.Pod) {
		pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{}
	}
	says := func(code fwk.Code, plugin, why string, nodes ...string) func(*corev1.Pod, fwk.NodeInfo) *fwk.Status {
		return func(_ *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
			if !slices.Contains(nodes, info.Node().Name) {
				return nil
			}
			return fwk.NewStatus(code, why).WithPlugin(plugin)
		}
	}
	const lacks, never = "cannot allocate all claims", fwk.UnschedulableAndUnresolvable
	for name, tc := range map[string]struct {
		at       func(*corev1.Pod, fwk.NodeInfo) *fwk.Status
		old, new func(*corev1.Pod)
		evicted  []string
	}{
		"one with a claim leaves":                       {says(never, "DynamicResources", lacks, "n1"), claims, claims, []string{"new"}},
		"in the words of an older kube-scheduler":       {says(fwk.Unschedulable, "DynamicResources", lacks, "n1"), claims, claims, []string{"new"}},
		"one with a claim for an extended resource":     {says(never, "DynamicResources", lacks, "n1"), implied, implied, []string{"new"}},
		"one without a claim holds none":                {says(never, "DynamicResources", lacks, "n0", "n1"), claims, func(*corev1.Pod) {}, []string{"old"}},
		"where nobody leaves there is none, so both go": {says(never, "DynamicResources", lacks, "n1", "n2"), claims, claims, []string{"new", "old"}},
		"the claim of the gang is bound to other nodes": {says(never, "DynamicResources", "resourceclaim not available on the node", "n1"), claims, claims, []string{"old"}},
		"another plugin says so":                        {says(never, "Other", lacks, "n1"), claims, claims, []string{"old"}},
		"it cannot tell":                                {says(fwk.Error, "DynamicResources", "no class", "n0", "n1"), claims, claims, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := newRacks(t, 4)
			l.answers()
			l.among(&filters{at: tc.at})
			l.group("g", map[string]any{"minMember": int64(3)})
			l.running(0, "old", 60, ofPriority(-1), tc.old)
			l.running(1, "new", 5, ofPriority(-1), tc.new)
			first := l.member("m0", claims)
			l.member("m1", claims)
			l.member("m2", claims)
			if _, evicted, _ := l.refuse(first); !slices.Equal(evicted, tc.evicted) {
				t.Errorf("%v are evicted, want %v, told %q", evicted, tc.evicted, l.told)
			}
		})
	}
}

// TestAMemberIsTriedBesideThoseBeforeIt, so that a rule of how many may be in a rack holds for the gang as a whole.
func TestAMemberIsTriedBesideThoseBeforeIt(t *testing.T) {
	l := newRacks(t, 6)
	l.answers()
	inRack := map[string]int{}
	l.among(&filters{at: func(pod *corev1.Pod, info fwk.NodeInfo) *fwk.Status {
		rack := info.Node().Labels[names.LabelRack]
		if pod.Name == "m0" {
			clear(inRack) // a plan is tried from the beginning
		}
		if inRack[rack] == 1 {
			return fwk.NewStatus(fwk.Unschedulable, "one in a rack").WithPlugin("Spread")
		}
		inRack[rack]++
		return nil
	}})
	l.group("g", map[string]any{"minMember": int64(3)})
	for i, minutes := range []int{1, 1, 5, 9, 5, 9} {
		l.running(i, fmt.Sprint("low", i), minutes, ofPriority(-1))
	}
	first := l.member("m0")
	l.member("m1")
	l.member("m2")
	if _, evicted, _ := l.refuse(first); !slices.Equal(evicted, []string{"low0", "low2", "low4"}) {
		t.Errorf("%v are evicted, want those who lose the least of each rack", evicted)
	}
}

// TestMembersThatAreAlikeAreReadOnce: a member costs what it says that others do not.
func TestMembersThatAreAlikeAreReadOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(int, *corev1.Pod)
		read   int
	}{
		"alike": {func(int, *corev1.Pod) {}, 1},
		"with indices, and the volumes that each pod has": {func(i int, pod *corev1.Pod) {
			pod.Labels[placement.PerMemberLabels[0]] = fmt.Sprint(i)
			pod.Spec.Volumes = []corev1.Volume{{Name: fmt.Sprint("kube-api-access-", i), VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}}
		}, 1},
		"with other labels": {func(i int, pod *corev1.Pod) { pod.Labels["role"] = fmt.Sprint(i) }, 3},
		"with claims of their own": {func(i int, pod *corev1.Pod) {
			claim := &corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprint("data-", i)}
			pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: claim}}}
		}, 3},
		"with ports of their own": {func(i int, pod *corev1.Pod) {
			pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: int32(8000 + i)}}
		}, 3},
		"with sidecars that have ports of their own": {func(i int, pod *corev1.Pod) {
			pod.Spec.InitContainers = []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: int32(8000 + i)}}}}
		}, 3},
		"with volumes that are made for each": {func(_ int, pod *corev1.Pod) {
			pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
		}, 3},
		"that keep apart from others":   {func(i int, pod *corev1.Pod) { pod.Spec.Affinity = apartFrom(fmt.Sprint(i)) }, 3},
		"that keep apart from the same": {func(_ int, pod *corev1.Pod) { pod.Spec.Affinity = apartFrom("a", "b", "c", "d") }, 1},
		"that spread otherwise": {func(i int, pod *corev1.Pod) {
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: int32(i)}}
		}, 3},
		"with claims for other devices": {func(i int, pod *corev1.Pod) {
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: fmt.Sprint(i)}}
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			l := newRacks(t, 3)
			l.answers()
			l.among(&filters{})
			l.group("g", map[string]any{"minMember": int64(3)})
			l.running(0, "low", 60, ofPriority(-1))
			var first *corev1.Pod
			for i := range 3 {
				pod := l.member(fmt.Sprint("m", i), func(pod *corev1.Pod) { tc.change(i, pod) })
				if i == 0 {
					first = pod
				}
			}
			if _, evicted, _ := l.refuse(first); len(evicted) != 1 || l.others.asked != tc.read {
				t.Errorf("%v are evicted, and members were read %d times, want %d", evicted, l.others.asked, tc.read)
			}
		})
	}
}

// apartFrom keeps a pod from nodes with pods that have all of some labels.
func apartFrom(labels ...string) *corev1.Affinity {
	others := metav1.LabelSelector{MatchLabels: map[string]string{}}
	for _, label := range labels {
		others.MatchLabels[label] = "x"
	}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: &others}},
	}}
}

// TestMembersThatSayMuchCostARehearsalMuch, each of them: all other pods wait meanwhile. When it has cost what it may, no
// more of them are read.
func TestMembersThatSayMuchCostARehearsalMuch(t *testing.T) {
	l := newRacks(t, 1)
	l.among(&filters{})
	r := &preemption.DryRun{DryRunner: l.dryRunner(), NodeDomain: &placement.NodeDomain{}, Ctx: t.Context(), Filters: handle{lab: l}, ClassByHash: map[uint64]*preemption.FilterClass{}, Left: preemption.MaxDryRunSteps}
	long := make([]string, 1000)
	for i := range long {
		long[i] = fmt.Sprintf("%0100d", i)
	}
	pod := l.member("m", func(pod *corev1.Pod) { pod.Spec.Affinity = apartFrom(long...) })
	pods, before := 0, r.Left
	for ; r.Left >= 0 && pods < 10_000; pods++ {
		if part, refused := r.ClassOf(pod, 0); part == nil || refused != nil {
			t.Fatalf("member %d is refused: %v", pods, refused)
		}
		if spent := before - r.Left; spent < len(long)*100/preemption.BytesInStep {
			t.Fatalf("member %d of %d bytes costs %d steps", pods, len(long)*100, spent)
		}
		before = r.Left
	}
	if pods == 10_000 {
		t.Fatalf("%d steps are left after %d members", r.Left, pods)
	}
	if part, refused := r.ClassOf(l.member("n"), 0); part != nil || refused != nil {
		t.Errorf("%v, %v of one more", part, refused)
	}
}

// TestRefusedNodesDoNotEndTheSearch: another plugin refuses the nodes that cost the least, as where a volume is elsewhere, and more of them than plans
// are tried at a time. The gang has pods of other nodes leave after some searches, in a small pool and in a large one.
func TestRefusedNodesDoNotEndTheSearch(t *testing.T) {
	const rack = 20
	for _, nodes := range []int{200, 400} {
		for _, how := range []string{"", "required=rack", "preferred=rack", "required=rack;segment=8"} {
			t.Run(fmt.Sprint(nodes, how), func(t *testing.T) {
				l := smallJobs(t, nodes, rack)
				now := noon
				l.now = func() time.Time { return now }
				refused := map[string]bool{}
				for node := range 5 * rack {
					refused[l.infos[node].Node().Name] = true
				}
				l.among(&filters{at: func(_ *corev1.Pod, on fwk.NodeInfo) *fwk.Status {
					if refused[on.Node().Name] {
						return fwk.NewStatus(fwk.Unschedulable, "not here")
					}
					return nil
				}})
				first := l.largeGang(16, how)
				var evicted []string
				attempts := 0
				for ; attempts < 30 && len(evicted) == 0; attempts++ {
					cs, _, _ := l.aim(first)
					_, evicted = l.postFilter(cs, first)
					now = now.Add(2 * phase.BaseBackoff)
				}
				if len(evicted) != 128 || isOnOneOf(evicted[0], 5*rack) {
					t.Errorf("%d pods leave after %d searches, want 128 of nodes that are not refused: %v", len(evicted), attempts, evicted)
				}
			})
		}
	}
}
