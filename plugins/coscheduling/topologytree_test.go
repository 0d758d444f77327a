package coscheduling

import (
	"fmt"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestATreeIsGrownOnce for some nodes, and anew when one lies elsewhere; not when anything else of it has changed.
func TestATreeIsGrownOnce(t *testing.T) {
	l := newRacks(t, 4)
	known, rack := &placement.CapacityTables{}, placement.Layout{Level: "rack"}
	before, _ := known.TreeFor(rack, l.infos)
	relabel := func(node int, key, value string) {
		changed := l.infos[node].Node().DeepCopy()
		changed.Labels[key] = value
		l.infos[node] = nodeInfo(changed)
	}
	relabel(0, "other", "label")
	if again, _ := known.TreeFor(rack, l.infos); again != before {
		t.Error("the tree is grown anew though all nodes lie as before")
	}
	if flat, _ := known.TreeFor(placement.Layout{}, l.infos); len(flat.Levels) != 0 {
		t.Errorf("without a layout there are levels: %v", flat.Levels)
	}
	relabel(0, names.LabelRack, "r1")
	moved, level := known.TreeFor(rack, l.infos)
	if moved == before || len(moved.NodeDomain(0, level).Nodes) != 3 {
		t.Error("a node that has moved lies where it was")
	}
	if fewer, _ := known.TreeFor(rack, l.infos[1:]); len(fewer.Root.Nodes) != 3 {
		t.Errorf("the tree of three nodes has %d", len(fewer.Root.Nodes))
	}
	other := append([]fwk.NodeInfo{nodeInfo(fixture.Node("other").Label(names.LabelRack, "r1").Obj())}, l.infos[1:]...)
	if tree, _ := known.TreeFor(rack, other); tree == moved {
		t.Error("another node has the tree of the one before")
	}
	for i := range 2 * placement.MaxTrees {
		known.TreeFor(placement.Layout{Level: fmt.Sprintf("example.com/%d", i)}, l.infos)
	}
	if len(known.Trees) != placement.MaxTrees {
		t.Errorf("%d trees are kept, want %d", len(known.Trees), placement.MaxTrees)
	}
}
