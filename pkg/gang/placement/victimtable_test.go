package placement_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/devices"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestWhatIsRememberedOfTheRoomIsRight: nodes fill, are changed, come and go, room is kept on some, and more kinds of pods ask
// than are remembered.
func TestWhatIsRememberedOfTheRoomIsRight(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 14))
	ledger, known := devices.NewCache(), &placement.CapacityTables{}
	var nodes []fwk.NodeInfo
	for i := range 12 {
		nodes = append(nodes, nodeInfo(fixture.Node(fmt.Sprint("n", i)).GPUs(8, "T4").Obj()))
	}
	for step := range 3_000 {
		switch at := random.IntN(len(nodes)); random.IntN(8) {
		case 0: // kube-scheduler changes a NodeInfo in its place
			pod := fixture.Pod(fmt.Sprint("p", step)).GPUs(int64(1 + random.IntN(3))).Obj()
			pod.Spec.NodeName = nodes[at].Node().Name
			nodes[at].(*framework.NodeInfo).AddPod(pod)
		case 1:
			node := nodes[at].Node().DeepCopy()
			node.Spec.Unschedulable = !node.Spec.Unschedulable
			nodes[at].(*framework.NodeInfo).SetNode(node)
		case 2:
			*nodes[at].(*framework.NodeInfo) = *nodeInfo(nodes[at].Node()).(*framework.NodeInfo)
		case 3:
			if random.IntN(10) == 0 { // the list is another one when a node goes or comes
				nodes = append(slices.Delete(slices.Clone(nodes), at, at+1), nodeInfo(fixture.Node(fmt.Sprint("m", step)).GPUs(8, "T4").Obj()))
			}
		}
		pod := fixture.Pod("m").GPUs(int64(1 + random.IntN(8))).CPU(int64(1 + random.IntN(3))).Obj()
		seats, err := placement.NewSlots([]placement.PodClass{{Pod: pod}})
		if err != nil {
			t.Fatal(err)
		}
		waiting := []placement.PodClass{{Pod: pod, Count: 1 + random.IntN(40)}}
		b := placement.ClusterSnapshot{Nodes: nodes, DeviceCache: ledger}
		if random.IntN(5) == 0 {
			b.Kept = map[string][]cycle.ResourceRequest{nodes[random.IntN(len(nodes))].Node().Name: {{Resource: corev1.ResourceCPU, Amount: 1000}, {Resource: "nvidia.com/gpu", Amount: 6}}}
		}
		want := b.CapacityFor(waiting, seats, 0)
		b.Tables = known
		if got := b.CapacityFor(waiting, seats, 0); got != want {
			t.Fatalf("step %d: room %+v, want %+v", step, got, want)
		}
	}
	if len(known.Tables) != placement.MaxTables {
		t.Errorf("%d tables are kept, want %d", len(known.Tables), placement.MaxTables)
	}
	b := placement.ClusterSnapshot{Nodes: nodes, Tables: known}
	if huge := fixture.Pod("huge").Obj(); b.Tables.TableFor(huge, nodes) == nil {
		t.Error("a small pod has no table")
	} else if huge.Spec.Tolerations = make([]corev1.Toleration, placement.MaxWritten); b.Tables.TableFor(huge, nodes) != nil {
		t.Error("a pod that says too much has a table")
	}
}

// TestATableIsAskedForWhatChangedAlone: an attempt of a gang that waits does not count all nodes anew.
func TestATableIsAskedForWhatChangedAlone(t *testing.T) {
	pod := fixture.Pod("m").GPUs(8).Obj()
	seats, err := placement.NewSlots([]placement.PodClass{{Pod: pod}})
	if err != nil {
		t.Fatal(err)
	}
	nodes := []fwk.NodeInfo{nodeInfo(fixture.Node("a").GPUs(8, "T4").Obj()), nodeInfo(fixture.Node("b").GPUs(8, "T4").Obj())}
	b := placement.ClusterSnapshot{Nodes: nodes, DeviceCache: devices.NewCache(), Tables: &placement.CapacityTables{}}
	b.CapacityFor([]placement.PodClass{{Pod: pod, Count: 9}}, seats, 0)
	table := b.Tables.TableFor(pod, nodes)
	before := slices.Clone(table.At)
	nodes[1].(*framework.NodeInfo).AddPod(fixture.Pod("x").Obj())
	b.CapacityFor([]placement.PodClass{{Pod: pod, Count: 9}}, seats, 0)
	if again := b.Tables.TableFor(pod, nodes); again != table || table.At[0] != before[0] || table.At[1] == before[1] {
		t.Errorf("counted at %v, before at %v", table.At, before)
	}
}

// TestTheLowestPriorityIsSeenAtOnce, when a pod comes to a node, leaves, or is about to.
func TestTheLowestPriorityIsSeenAtOnce(t *testing.T) {
	known := &placement.CapacityTables{}
	nodes := []fwk.NodeInfo{nodeInfo(fixture.Node("a").Obj()), nodeInfo(fixture.Node("b").Obj(), fixture.Pod("x").Obj())}
	low, gone := fixture.Pod("low").Obj(), fixture.Pod("gone").Obj()
	low.UID, gone.UID = "low", "gone"
	low.Spec.Priority, gone.Spec.Priority, gone.DeletionTimestamp = ptr.To[int32](-1), ptr.To[int32](9), ptr.To(metav1.Now())
	for _, step := range []struct {
		do    func(info *framework.NodeInfo) error
		below bool
	}{
		{func(*framework.NodeInfo) error { return nil }, false},
		{func(info *framework.NodeInfo) error { info.AddPod(low); return nil }, true},
		{func(info *framework.NodeInfo) error { return info.RemovePod(klog.Background(), low) }, false},
		{func(info *framework.NodeInfo) error { info.AddPod(gone); return nil }, true},
	} {
		if err := step.do(nodes[0].(*framework.NodeInfo)); err != nil {
			t.Fatal(err)
		}
		if got := known.HasPodsBelow(nodes, 0); got != step.below {
			t.Errorf("somebody is of lower priority: %t, want %t", got, step.below)
		}
	}
	if known.HasPodsBelow(nodes[1:], 0) {
		t.Error("somebody is of lower priority on the one node that is left")
	}
}

func nodeInfo(node *corev1.Node, pods ...*corev1.Pod) fwk.NodeInfo {
	info := framework.NewNodeInfo(pods...)
	info.SetNode(node)
	return info
}
