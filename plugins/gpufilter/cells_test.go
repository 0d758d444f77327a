package gpufilter

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestACellIsTheSameWhileItsNodesAre(t *testing.T) {
	index, err := newNodeIndex(newHandle(t, twoPools...).SharedInformerFactory().Core().V1().Nodes().Informer())
	if err != nil {
		t.Fatal(err)
	}
	c := cells{index: index}
	first, err := c.of("a", nil)
	if err != nil || first.Names.Len() != 3 {
		t.Fatalf("cell %v, %v, want the 3 nodes of the pool", first, err)
	}
	heartbeat := gpuNode("a1", "a", "A100-80G")
	heartbeat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
	for name, step := range map[string]struct {
		node *corev1.Node
		same bool
	}{
		"a heartbeat":           {node: heartbeat, same: true},
		"a node of another one": {node: gpuNode("b9", "b", "T4"), same: true},
	} {
		if err := index.store.Update(step.node); err != nil {
			t.Fatal(err)
		}
		if got, err := c.of("a", nil); err != nil || (got == first) != step.same {
			t.Errorf("%s: cell %v, %v, the same as before: %v", name, got, err, got == first)
		}
	}
	if err := index.store.Update(gpuNode("a1", "b", "A100-80G")); err != nil {
		t.Fatal(err)
	}
	if got, err := c.of("a", nil); err != nil || got.Names.Has("a1") || !first.Names.Has("a1") || !got.Replaces(first) {
		t.Errorf("cell %v, %v, want another one in its place without the node that moved", got, err)
	}
}
