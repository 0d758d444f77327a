package census

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/bounded"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// waiting is a pod without a node that was created some minutes ago.
func waiting(name, pool string, gpus int64, minutes int, change ...func(*corev1.Pod)) corev1.Pod {
	pod := fixture.Pod(name).Pool(pool).GPUs(gpus).Obj()
	pod.Spec.NodeName, pod.Status.Phase = "", corev1.PodPending
	pod.CreationTimestamp = metav1.NewTime(now.Add(-time.Duration(minutes) * time.Minute))
	for _, c := range change {
		c(pod)
	}
	return *pod
}

func refused(verdict string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: verdict,
		}}
	}
}

func bound(name, node string, gpus int64, change ...func(*corev1.Pod)) corev1.Pod {
	pod := waiting(name, "", gpus, 0, change...)
	pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodRunning
	return pod
}

func inGang(name string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		pod.Labels[g8s.LabelPodGroup] = name
	}
}

func TestPendingIsBounded(t *testing.T) {
	facts := Facts{Nodes: []corev1.Node{*fixture.Node("n").Pool("a").GPUs(8, "A").Obj()}}
	for i := range 500 {
		facts.Pods = append(facts.Pods, waiting(fmt.Sprint("p", i), fmt.Sprint("invented-", i), math.MaxInt64, i))
	}
	other, ended, going, plain := waiting("other", "a", 1, 1), waiting("ended", "a", 1, 1), waiting("going", "a", 1, 1), waiting("plain", "a", 0, 1)
	other.Spec.SchedulerName, ended.Status.Phase, going.DeletionTimestamp = "another", corev1.PodFailed, &metav1.Time{Time: now}
	facts.Pods = append(facts.Pods, other, ended, going, plain)
	got := Count(facts, now).Pending
	if len(got) != 1 {
		t.Fatalf("%d causes and pools, want one: users choose the names of pools that are not there", len(got))
	}
	pending := got[Waiting{nowhere, reason.WaitingForTurn}]
	if pending == nil || pending.Pods != 500 || pending.GPUs != 500*mostGPUs || pending.Oldest != 499*time.Minute {
		t.Errorf("got %+v", pending)
	}
}

func TestPoolsAreBounded(t *testing.T) {
	var facts Facts
	for i := range mostPools + 20 {
		facts.Nodes = append(facts.Nodes, *fixture.Node(fmt.Sprint("n", i)).Pool(fmt.Sprint("p", i)).GPUs(8, "A").Obj())
	}
	got := Count(facts, now).Pools
	if len(got) != mostPools+1 || got[bounded.Others] == nil || got[bounded.Others].GPUs["A"].Allocatable != 20*8 {
		t.Errorf("%d pools, the others %+v", len(got), got[bounded.Others])
	}
}

// TestNamesWithoutEnd has each of 10,000 nodes call its pool and its type as nobody else does, as many SpotPools, and pods that wait
// for as many pools that are not there.
func TestNamesWithoutEnd(t *testing.T) {
	const many = 10_000
	var facts Facts
	for i := range many {
		name := fmt.Sprintf("x%05d", i)
		facts.Nodes = append(facts.Nodes, *fixture.Node(name).Pool(name).GPUs(8, name).Obj())
		facts.Pods = append(facts.Pods, waiting(name, "never-"+name, 1, 1))
		facts.SpotPools = append(facts.SpotPools, *spotPool(name, metav1.ConditionTrue))
	}
	got := Count(facts, now)
	gpuSeries, held := 0, int64(0)
	for _, pool := range got.Pools {
		gpuSeries += len(pool.GPUs)
		for _, sum := range pool.GPUs {
			held += sum.Allocatable
		}
	}
	if len(got.Pools) != mostPools+1 || gpuSeries > 2*mostPools+mostTypes || len(got.Pending) != 1 || len(got.Spot) != mostPools+1 {
		t.Errorf("%d pools with %d types, %d that wait, %d SpotPools", len(got.Pools), gpuSeries, len(got.Pending), len(got.Spot))
	}
	if rest := got.Spot[bounded.Others]; held != many*8 || rest.Minimum != 3*(many-mostPools) {
		t.Errorf("%d GPUs and %+v are told, want all that there are", held, rest)
	}
}

func TestGangs(t *testing.T) {
	member := func(name, gang string, minutes int) corev1.Pod { return waiting(name, "a", 1, minutes, inGang(gang)) }
	ended := bound("done", "n", 1, inGang("over"))
	ended.Status.Phase = corev1.PodSucceeded
	facts := Facts{Pods: []corev1.Pod{
		member("a0", "a", 5), member("a1", "a", 7), // nobody runs
		bound("b0", "n", 1, inGang("b")), member("b1", "b", 3), // torn
		bound("c0", "n", 1, inGang("c")), // all run
		ended, member("o1", "over", 9),   // what ran has ended
		waiting("alone", "a", 1, 60),
		waiting("gated", "a", 1, 90, inGang("gated"), func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }),
	}}
	want := Gangs{Waiting: 2, WaitingOldest: 9 * time.Minute, PartiallyBound: 1, PartiallyBoundOldest: 3 * time.Minute}
	if got := Count(facts, now).Gangs; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestACardInUseIsHeld whatever a pod has of it, but not where a node merely takes no pods.
func TestACardInUseIsHeld(t *testing.T) {
	tests := map[string]struct {
		node inventory.Node
		want int64
	}{
		"whole ones":                    {inventory.Node{Ready: true, GPUs: inventory.GPUs{Allocatable: 8, Used: 3, Free: 5}}, 3},
		"shares of five":                {inventory.Node{Ready: true, GPUs: inventory.GPUs{Allocatable: 8, Free: 3}}, 5},
		"one is broken":                 {inventory.Node{Ready: true, GPUs: inventory.GPUs{Allocatable: 8, Used: 1, Free: 6, Unhealthy: 1}}, 1},
		"a node that is cordoned":       {inventory.Node{Ready: true, Cordoned: true, GPUs: inventory.GPUs{Allocatable: 8, Used: 2}}, 2},
		"GPUs that are gone under pods": {inventory.Node{Ready: true, GPUs: inventory.GPUs{Allocatable: 4, Used: 8}}, 8},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := heldOn(&tc.node); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

// TestWhatIsGivenAwayTwice: pods of another scheduler count, and GPUs beyond those of each node, however many others have.
func TestWhatIsGivenAwayTwice(t *testing.T) {
	by := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.SchedulerName = name } }
	facts := Facts{
		Nodes: []corev1.Node{*fixture.Node("n1").Pool("a").GPUs(8, "A").Obj(), *fixture.Node("n2").Pool("a").GPUs(8, "A").Obj(),
			*fixture.Node("n3").Pool("volcano").GPUs(8, "A").Obj()},
		Pods: []corev1.Pod{bound("ours", "n1", 8), bound("theirs", "n1", 6, by("default-scheduler")), bound("small", "n2", 1, by("default-scheduler")),
			bound("none", "n2", 0, by("default-scheduler")), bound("home", "n3", 8, by("volcano"))},
	}
	got := Count(facts, now)
	if got.Foreign != 2 || got.Overpromised["a"] != 6 || got.Overpromised["volcano"] != 0 {
		t.Errorf("%d pods of others, and %v GPUs too many, want 2 pods and 6 GPUs of pool a", got.Foreign, got.Overpromised)
	}
}

func spotPool(name string, capacity metav1.ConditionStatus) *g8s.SpotPool {
	pool := &g8s.SpotPool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pool.Spec.Minimum, pool.Status.Size, pool.Status.Joined = 3, 2, 1
	pool.Status.Conditions = []metav1.Condition{
		{Type: g8s.ConditionCapacityAvailable, Status: capacity}, {Type: g8s.ConditionMachinesJoin, Status: metav1.ConditionFalse},
	}
	return pool
}

// TestWhatIsShown reads the metrics as Prometheus does, twice within the time for which a count holds.
func TestWhatIsShown(t *testing.T) {
	known := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(known), g8s.AddToScheme(known)); err != nil {
		t.Fatal(err)
	}
	running, stuck := bound("run", "n", 3), waiting("stuck", "a", 8, 2, refused("0/1 nodes are available: 1 Insufficient cpu."))
	reader := fake.NewClientBuilder().WithScheme(known).WithObjects(fixture.Node("n").Pool("a").GPUs(8, "A").Obj(), &running, &stuck, spotPool("s", metav1.ConditionFalse)).Build()
	clock := clocktesting.NewFakePassiveClock(now)
	collector := &Collector{Reader: reader, Clock: clock}
	want := `
gpu_controller_cpu_cores{pool="a",state="allocatable"} 128
gpu_controller_cpu_cores{pool="a",state="requested"} 1
gpu_controller_foreign_pods{} 0
gpu_controller_gangs{state="torn"} 0
gpu_controller_gangs{state="waiting"} 0
gpu_controller_gangs_oldest_seconds{state="torn"} 0
gpu_controller_gangs_oldest_seconds{state="waiting"} 0
gpu_controller_gpu_sets{pool="a",size="1",state="all"} 8
gpu_controller_gpu_sets{pool="a",size="1",state="free"} 5
gpu_controller_gpu_sets{pool="a",size="2",state="all"} 4
gpu_controller_gpu_sets{pool="a",size="2",state="free"} 2
gpu_controller_gpu_sets{pool="a",size="4",state="all"} 2
gpu_controller_gpu_sets{pool="a",size="4",state="free"} 1
gpu_controller_gpu_sets{pool="a",size="8",state="all"} 1
gpu_controller_gpu_sets{pool="a",size="8",state="free"} 0
gpu_controller_gpus{gpu_type="A",pool="a",state="allocatable"} 8
gpu_controller_gpus{gpu_type="A",pool="a",state="free"} 5
gpu_controller_gpus{gpu_type="A",pool="a",state="held"} 3
gpu_controller_gpus{gpu_type="A",pool="a",state="unhealthy"} 0
gpu_controller_memory_bytes{pool="a",state="allocatable"} 1.099511627776e+12
gpu_controller_memory_bytes{pool="a",state="requested"} 1.073741824e+09
gpu_controller_overpromised_gpus{pool="a"} 0
gpu_controller_pending_gpus{cause="CPUShort",pool="a"} 8
gpu_controller_pending_oldest_seconds{cause="CPUShort",pool="a"} 120
gpu_controller_pending_pods{cause="CPUShort",pool="a"} 1
gpu_controller_spot_machines{spot_pool="s",state="bought"} 2
gpu_controller_spot_machines{spot_pool="s",state="joined"} 1
gpu_controller_spot_machines{spot_pool="s",state="minimum"} 3
gpu_controller_spot_problem{problem="capacity",spot_pool="s"} 1
gpu_controller_spot_problem{problem="cloud",spot_pool="s"} 0
gpu_controller_spot_problem{problem="joining",spot_pool="s"} 1
`
	compare(t, collector, want)
	if err := reader.Delete(context.Background(), &stuck); err != nil {
		t.Fatal(err)
	}
	compare(t, collector, want) // as it was counted
	clock.SetTime(now.Add(numbersTTL))
	if got, err := testutil.GatherAndCount(registryOf(t, collector), "gpu_controller_pending_pods"); err != nil || got != 0 {
		t.Errorf("%d pods wait after a while, %v", got, err)
	}
}

// TestNoCacheCountsNothing has a cache that cannot be read.
func TestNoCacheCountsNothing(t *testing.T) {
	if got := testutil.CollectAndCount(&Collector{Reader: broken{}, Clock: clocktesting.NewFakePassiveClock(now)}); got != 0 {
		t.Errorf("%d metrics", got)
	}
}

type broken struct{ client.Reader }

func (broken) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("not yet")
}

func compare(t *testing.T, collector *Collector, want string) {
	t.Helper()
	families, err := registryOf(t, collector).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	got.WriteString("\n")
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", label.GetName(), label.GetValue()))
			}
			fmt.Fprintf(&got, "%s{%s} %v\n", family.GetName(), strings.Join(labels, ","), metric.GetGauge().GetValue())
		}
	}
	if got.String() != want {
		t.Errorf("got:%s\nwant:%s", got.String(), want)
	}
}

func registryOf(t *testing.T, collector *Collector) *prometheus.Registry {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(collector); err != nil {
		t.Fatal(err)
	}
	return registry
}
