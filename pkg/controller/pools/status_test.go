package pools

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/nodestate"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// node is one with eight A100 in a zone.
func node(name string, change ...func(*corev1.Node)) corev1.Node {
	out := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			g8s.LabelPool: "train", g8s.LabelGPUType: "A100-80G", g8s.LabelMemory: "80Gi",
			corev1.LabelTopologyRegion: "ap-1", corev1.LabelTopologyZone: "ap-1a",
		}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{
				g8s.ResourceGPU: resource.MustParse("8"), corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"),
			},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
	for _, c := range change {
		c(&out)
	}
	return out
}

func labelled(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		if value == "" {
			delete(n.Labels, key)
		} else {
			n.Labels[key] = value
		}
	}
}

func offers(name corev1.ResourceName, amount string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Allocatable[name] = resource.MustParse(amount) }
}

// pod asks for GPUs on a node, or waits for them since some minutes.
func pod(name, on string, gpus int64, minutes int) corev1.Pod {
	phase := corev1.PodRunning
	if on == "" {
		phase = corev1.PodPending
	}
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "team", UID: types.UID(name), CreationTimestamp: metav1.NewTime(now.Add(-time.Duration(minutes) * time.Minute)),
			Labels: map[string]string{g8s.LabelJob: strings.Split(name, "-")[0], g8s.LabelJobType: "training", g8s.LabelPool: "train"},
		},
		Spec: corev1.PodSpec{
			NodeName: on, SchedulerName: g8s.SchedulerName, NodeSelector: map[string]string{g8s.LabelPool: "train"},
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{g8s.ResourceGPU: *resource.NewQuantity(gpus, resource.DecimalSI)},
			}}},
		},
		Status: corev1.PodStatus{Phase: phase},
	}
}

// TestBroken has each constraint kept and broken.
func TestBroken(t *testing.T) {
	quantity := func(s string) *resource.Quantity { return ptr.To(resource.MustParse(s)) }
	tests := map[string]struct {
		constraints g8s.PoolConstraints
		node        corev1.Node
		want        []string
	}{
		"nothing is asked":                {node: node("n", labelled(g8s.LabelGPUType, ""))},
		"a type that is allowed":          {constraints: g8s.PoolConstraints{GPUTypes: []string{"H100-80G", "A100-80G"}}, node: node("n")},
		"a type that is not":              {constraints: g8s.PoolConstraints{GPUTypes: []string{"H100-80G", "H20"}}, node: node("n"), want: []string{"its gpu-type is A100-80G, and must be one of H100-80G, H20"}},
		"a node that says no type":        {constraints: g8s.PoolConstraints{GPUTypes: []string{"H20"}}, node: node("n", labelled(g8s.LabelGPUType, "")), want: []string{"nothing says its gpu-type, which must be one of H20"}},
		"enough GPUs":                     {constraints: g8s.PoolConstraints{MinNode: g8s.NodeMinimum{GPUs: ptr.To[int32](8)}}, node: node("n")},
		"too few GPUs":                    {constraints: g8s.PoolConstraints{MinNode: g8s.NodeMinimum{GPUs: ptr.To[int32](8)}}, node: node("n", offers(g8s.ResourceGPU, "7")), want: []string{"it offers 7 GPUs, and must offer 8"}},
		"enough memory on each GPU":       {constraints: g8s.PoolConstraints{MinNode: g8s.NodeMinimum{GPUMemory: quantity("80Gi")}}, node: node("n")},
		"too little memory on each GPU":   {constraints: g8s.PoolConstraints{MinNode: g8s.NodeMinimum{GPUMemory: quantity("141Gi")}}, node: node("n"), want: []string{"it has 80Gi of memory on each GPU, and must have 141Gi"}},
		"memory of GPUs that nobody says": {constraints: g8s.PoolConstraints{MinNode: g8s.NodeMinimum{GPUMemory: quantity("16Gi")}}, node: node("n", labelled(g8s.LabelMemory, "")), want: []string{"nothing says the memory of its GPUs, which must be 16Gi"}},
		"enough CPU":                      {constraints: g8s.PoolConstraints{MinNode: g8s.NodeMinimum{CPU: quantity("64")}}, node: node("n")},
		"too little CPU":                  {constraints: g8s.PoolConstraints{MinNode: g8s.NodeMinimum{CPU: quantity("64")}}, node: node("n", offers(corev1.ResourceCPU, "63500m")), want: []string{"it has 63500m of CPU, and must have 64"}},
		"enough memory":                   {constraints: g8s.PoolConstraints{MinNode: g8s.NodeMinimum{Memory: quantity("512Gi")}}, node: node("n")},
		"too little memory":               {constraints: g8s.PoolConstraints{MinNode: g8s.NodeMinimum{Memory: quantity("1Ti")}}, node: node("n"), want: []string{"it has 512Gi of memory, and must have 1Ti"}},
		"a region and a zone of its own":  {constraints: g8s.PoolConstraints{Regions: []string{"ap-1"}, Zones: []string{"ap-1a", "ap-1b"}}, node: node("n")},
		"another region":                  {constraints: g8s.PoolConstraints{Regions: []string{"eu-1"}}, node: node("n"), want: []string{"its region is ap-1, and must be one of eu-1"}},
		"a zone that nothing says":        {constraints: g8s.PoolConstraints{Zones: []string{"ap-1a"}}, node: node("n", labelled(corev1.LabelTopologyZone, "")), want: []string{"nothing says its zone, which must be one of ap-1a"}},
		"all that is wrong is said": {
			constraints: g8s.PoolConstraints{GPUTypes: []string{"H20"}, MinNode: g8s.NodeMinimum{GPUs: ptr.To[int32](16)}}, node: node("n"),
			want: []string{"its gpu-type is A100-80G, and must be one of H20", "it offers 8 GPUs, and must offer 16"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pool := g8s.GPUPool{ObjectMeta: metav1.ObjectMeta{Name: "train"}, Spec: g8s.GPUPoolSpec{Constraints: tc.constraints}}
			_, broken := StatusOf(&pool, Facts{Nodes: []corev1.Node{tc.node}}, now)
			if diff := cmp.Diff(tc.want, textsOf(broken["n"])); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func textsOf(violations []nodestate.Violation) []string {
	var out []string
	for _, violation := range violations {
		out = append(out, violation.Text)
	}
	return out
}

func TestStatusOf(t *testing.T) {
	pool := &g8s.GPUPool{ObjectMeta: metav1.ObjectMeta{Name: "train", Generation: 3}, Spec: g8s.GPUPoolSpec{Constraints: g8s.PoolConstraints{
		GPUTypes: []string{"A100-80G"}, MinHealthyNodes: ptr.To[int32](3), MinZones: ptr.To[int32](2),
	}}}
	facts := Facts{
		Nodes: []corev1.Node{
			node("a"), node("b"),
			node("cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true }),
			node("suspect", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: g8s.TaintSuspect}} }),
			node("other", labelled(g8s.LabelGPUType, "T4"), offers(g8s.ResourceGPU, "4"), labelled(corev1.LabelTopologyZone, "ap-1b")),
		},
		Pods:    []corev1.Pod{pod("x-0", "a", 5, 60)},
		Waiting: []corev1.Pod{pod("y-0", "", 8, 40), pod("y-1", "", 8, 39), pod("z-0", "", 4, 10)},
	}
	got, broken := StatusOf(pool, facts, now)
	want := g8s.GPUPoolStatus{
		ObservedGeneration: 3, Nodes: 5, HealthyNodes: 2,
		GPUs: g8s.GPUCounts{Total: 36, Allocated: 5, Free: 11},
		Types: []g8s.GPUTypeStatus{
			{GPUType: "A100-80G", Nodes: 4, GPUs: g8s.GPUCounts{Total: 32, Allocated: 5, Free: 11}},
			{GPUType: "T4", Nodes: 1, GPUs: g8s.GPUCounts{Total: 4}},
		},
		FreeSets: []g8s.FreeSet{{Size: 8, Count: 1}, {Size: 4, Count: 2}, {Size: 2, Count: 5}, {Size: 1, Count: 11}},
		Pending:  g8s.PendingDemand{Jobs: 2, GPUs: 20, Since: ptr.To(metav1.NewTime(now.Add(-40 * time.Minute)))},
		Conditions: []metav1.Condition{
			{Type: g8s.ConditionAvailable, Status: metav1.ConditionFalse, Reason: "TooFewNodes", ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(now),
				Message: "2 nodes take pods, and 3 must; they are in 1 zones, and must be in 2"},
			{Type: g8s.ConditionNodesAdmitted, Status: metav1.ConditionFalse, Reason: "ConstraintsBroken", ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(now),
				Message: "other: its gpu-type is T4, and must be one of A100-80G"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string][]nodestate.Violation{"other": {
		{Constraint: "gpuTypes", Has: "T4", Wants: "A100-80G", Text: "its gpu-type is T4, and must be one of A100-80G"},
	}}, broken); diff != "" {
		t.Errorf("broken (-want +got):\n%s", diff)
	}
}

// TestListsAndTheStatusCountAlike: what keeps new pods from a node keeps its GPUs from what is free, in the status of its pool
// and in every list.
func TestListsAndTheStatusCountAlike(t *testing.T) {
	tainted := func(key, value string, effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: key, Value: value, Effect: effect}} }
	}
	tests := map[string]struct {
		change func(*corev1.Node)
		free   int64
	}{
		"well":     {func(*corev1.Node) {}, 16},
		"cordoned": {func(n *corev1.Node) { n.Spec.Unschedulable = true }, 8},
		"suspect":  {tainted(g8s.TaintSuspect, g8s.SuspectNotReady, corev1.TaintEffectNoSchedule), 8},
		"not admitted": {func(n *corev1.Node) {
			labelled(g8s.LabelGPUType, "T4")(n)
			tainted(g8s.TaintNotAdmitted, "", corev1.TaintEffectNoSchedule)(n)
		}, 8},
		"out of service by us":       {tainted(corev1.TaintNodeOutOfService, g8s.OutOfServiceByController, corev1.TaintEffectNoExecute), 8},
		"out of service by others":   {tainted(corev1.TaintNodeOutOfService, "nodeshutdown", corev1.TaintEffectNoExecute), 8},
		"a taint that some tolerate": {tainted("team", "a", corev1.TaintEffectNoSchedule), 16},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			pool := g8s.GPUPool{ObjectMeta: metav1.ObjectMeta{Name: "train"}, Spec: g8s.GPUPoolSpec{Constraints: g8s.PoolConstraints{GPUTypes: []string{"A100-80G"}}}}
			nodes := []corev1.Node{node("a"), node("b", tc.change)}
			status, _ := StatusOf(&pool, Facts{Nodes: nodes}, now)
			shown := inventory.Build(&snapshot.Snapshot{Nodes: nodes, GPUPools: []g8s.GPUPool{pool}})
			if status.GPUs.Free != tc.free || shown.Pools[0].GPUs.Free != tc.free || int(status.HealthyNodes) != shown.Pools[0].ReadyNodes {
				t.Errorf("the status has %d free on %d nodes, the lists %d on %d, want %d",
					status.GPUs.Free, status.HealthyNodes, shown.Pools[0].GPUs.Free, shown.Pools[0].ReadyNodes, tc.free)
			}
		})
	}
}

// TestConditionsKeepTheirTimes: a status that says the same again is the same.
func TestConditionsKeepTheirTimes(t *testing.T) {
	pool := &g8s.GPUPool{ObjectMeta: metav1.ObjectMeta{Name: "train"}}
	facts := Facts{Nodes: []corev1.Node{node("a")}}
	pool.Status, _ = StatusOf(pool, facts, now)
	again, _ := StatusOf(pool, facts, now.Add(time.Hour))
	if diff := cmp.Diff(pool.Status, again); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	facts.Nodes = nil
	pool.Spec.Constraints.MinHealthyNodes = ptr.To[int32](1)
	changed, _ := StatusOf(pool, facts, now.Add(time.Hour))
	if got := changed.Conditions[0].LastTransitionTime.Time; !got.Equal(now.Add(time.Hour)) {
		t.Errorf("the pool is not available since %s, want %s", got, now.Add(time.Hour))
	}
}

func TestAConditionNamesSomeNodes(t *testing.T) {
	broken := map[string][]nodestate.Violation{}
	for _, name := range strings.Split("abcdefgh", "") {
		broken[name] = []nodestate.Violation{{Text: "it offers 0 GPUs, and must offer 8"}}
	}
	if message := admittedCondition(broken).Message; !strings.HasSuffix(message, "; and 3 more") || strings.Contains(message, "f: ") {
		t.Errorf("got %q, want five names, and how many more there are", message)
	}
}
