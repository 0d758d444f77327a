package observe

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/devices"
	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

// sharedNode has two cards of 1000 MiB, to be had whole or shared.
func sharedNode(name, cpu string) *corev1.Node {
	return st.MakeNode().Name(name).Label(names.LabelGPUType, "T4").Label(names.LabelNVIDIAMemory, "1000").
		Capacity(map[corev1.ResourceName]string{"cpu": cpu, "memory": "64Gi", names.ResourceGPU: "2", names.ResourceSharedGPU: "2000"}).Obj()
}

func info(node *corev1.Node) fwk.NodeInfo {
	nodeInfo := framework.NewNodeInfo()
	nodeInfo.SetNode(node)
	return nodeInfo
}

// TestNodesFollowTheSnapshot changes nodes, and compares what the table has followed with what another one
// reads afresh. A pool in which nothing has changed has to be the same one.
func TestNodesFollowTheSnapshot(t *testing.T) {
	ledger := devices.NewCache()
	node := func(name, pool, cpu string) fwk.NodeInfo {
		made := sharedNode(name, cpu)
		made.Labels[names.LabelPool] = pool
		return info(made)
	}
	plain := func(name string) fwk.NodeInfo {
		return info(&corev1.Node{ObjectMeta: sharedNode(name, "1").ObjectMeta})
	}
	nodes := []fwk.NodeInfo{node("a0", "a", "8"), node("a1", "a", "8"), node("b0", "b", "8"), plain("p0")}
	var followed nodeTable
	followed.updateNodes(nodes, nil, ledger)
	same := func(name string, before map[string]*fragmentation.Pool) bool {
		return before[name] == followed.pools[name]
	}
	steps := []struct {
		why     string
		change  func()
		changed []string
	}{
		{"nothing", func() {}, nil},
		{"a node is larger", func() { nodes[0] = node("a0", "a", "16") }, []string{"a"}},
		{"a node is written again, with nothing else in it", func() { nodes[0] = node("a0", "a", "16") }, nil},
		{"a node moves", func() { nodes[1] = node("a1", "b", "8") }, []string{"a", "b"}},
		{"a node comes first, and all others stand elsewhere", func() { nodes = slices.Insert(nodes, 0, node("c0", "c", "8")) }, []string{"c"}},
		{"a node without cards gets some", func() { nodes[4] = node("p0", "c", "8") }, []string{"c"}},
		{"and loses them", func() { nodes[4] = plain("p0") }, []string{"c"}},
		{"all nodes stand elsewhere", func() { slices.Reverse(nodes) }, nil},
		{"and again as before", func() { slices.Reverse(nodes) }, nil},
		{"the last nodes leave", func() { nodes = nodes[:2] }, []string{"b"}},
		{"all leave", func() { nodes = nil }, []string{"a", "c"}},
	}
	for _, step := range steps {
		before := followed.pools
		step.change()
		followed.updateNodes(nodes, nil, ledger)
		var afresh nodeTable
		afresh.updateNodes(nodes, nil, ledger)
		if diff := cmp.Diff(afresh.pools, followed.pools, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: pools (-read afresh +followed):\n%s", step.why, diff)
		}
		for _, name := range []string{"a", "b", "c"} {
			if diff := cmp.Diff(afresh.idle[name], followed.idle[name], cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s: idle nodes of pool %s (-read afresh +followed):\n%s", step.why, name, diff)
			}
			if same(name, before) == slices.Contains(step.changed, name) {
				t.Errorf("%s: pool %s is the same: %t", step.why, name, same(name, before))
			}
		}
	}
}

// TestNodesThatAreToldOfAreRead changes nodes of one list, of which few are told of.
func TestNodesThatAreToldOfAreRead(t *testing.T) {
	ledger, changes := devices.NewCache(), &cycle.Changes{}
	var nodes []fwk.NodeInfo
	for i := range 20 {
		nodes = append(nodes, info(sharedNode(fmt.Sprint("n", i), "8")))
	}
	var told, afresh nodeTable
	told.updateNodes(nodes, changes, ledger)
	change := func(i int, cpu string) {
		nodes[i].(*framework.NodeInfo).SetNode(sharedNode(fmt.Sprint("n", i), cpu))
	}
	change(3, "16")
	change(4, "16")
	changes.RecordNode("n3")
	changes.RecordNode("of another list")
	changes.RecordSnapshot()
	if !told.updateNodes(nodes, changes, ledger) {
		t.Error("a node that was told of is not read")
	}
	change(4, "8")
	afresh.updateNodes(nodes, nil, ledger)
	if diff := cmp.Diff(afresh.pools, told.pools); diff != "" {
		t.Errorf("pools, of which one node was told of and another not (-want +got):\n%s", diff)
	}
	if told.updateNodes(nodes, changes, ledger) {
		t.Error("without a change the pools are others")
	}
}

// TestIdleNodesAreCounted has pods on one of two nodes.
func TestIdleNodesAreCounted(t *testing.T) {
	ledger := devices.NewCache()
	withPods := func(name string, pods ...*corev1.Pod) fwk.NodeInfo {
		node := framework.NewNodeInfo(pods...)
		made := sharedNode(name, "8")
		made.Labels[names.LabelPool] = "a"
		node.SetNode(made)
		return node
	}
	other := withPods("n1")
	left := func(milliCPU int64) fragmentation.Shape {
		return fragmentation.Shape{Cards: 2, MilliCPU: milliCPU, MemoryMiB: 64 << 10, Type: "T4"}
	}
	steps := []struct {
		why   string
		nodes []fwk.NodeInfo
		want  fragmentation.IdleNodes
	}{
		{"both are idle", []fwk.NodeInfo{withPods("n0"), other}, fragmentation.IdleNodes{left(8000): 2}},
		{"a pod without GPUs takes CPU", []fwk.NodeInfo{withPods("n0", st.MakePod().Req(map[corev1.ResourceName]string{"cpu": "3"}).Obj()), other},
			fragmentation.IdleNodes{left(8000): 1, left(5000): 1}},
		{"a pod takes a GPU", []fwk.NodeInfo{withPods("n0", st.MakePod().Req(map[corev1.ResourceName]string{names.ResourceGPU: "1"}).Obj()), other},
			fragmentation.IdleNodes{left(8000): 1}},
		{"it leaves", []fwk.NodeInfo{withPods("n0"), other}, fragmentation.IdleNodes{left(8000): 2}},
		{"a node leaves", []fwk.NodeInfo{other}, fragmentation.IdleNodes{left(8000): 1}},
	}
	var table nodeTable
	for _, step := range steps {
		table.updateNodes(step.nodes, nil, ledger)
		if diff := cmp.Diff(step.want, table.idle["a"], cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: idle nodes (-want +got):\n%s", step.why, diff)
		}
	}
}
