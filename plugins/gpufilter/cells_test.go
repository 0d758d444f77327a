package gpufilter

import (
	"fmt"
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

// TestTypesInAnotherOrderAreTheSameCell: there are thousands of orders of seven types.
func TestTypesInAnotherOrderAreTheSameCell(t *testing.T) {
	c := cellsOf(t, 3)
	first, err := c.of("p", []string{"T4", "H100", "A100"})
	if err != nil || first.Names.Len() != 3 {
		t.Fatalf("cell %v, %v, want the 3 nodes of a type", first, err)
	}
	for _, types := range [][]string{{"A100", "H100", "T4"}, {"H100", "A100", "T4", "H100"}} {
		if got, err := c.of("p", types); err != nil || got != first {
			t.Errorf("types %v: another cell, %v", types, err)
		}
	}
	if got, err := c.of("p", []string{"H100", "A100"}); err != nil || got == first {
		t.Errorf("fewer types: the same cell, %v", err)
	}
}

// TestCellsOfOneUserAreBounded has a user name every set of types that there could be, while others ask for theirs.
func TestCellsOfOneUserAreBounded(t *testing.T) {
	const nodes, sets = 5000, 500
	c := cellsOf(t, nodes)
	others, err := c.of("p", []string{"H100"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range sets {
		for _, types := range [][]string{{"H100", fmt.Sprintf("X%d", i)}, {fmt.Sprintf("a-type-that-no-node-has-%d", i)}} {
			if _, err := c.of("p", types); err != nil {
				t.Fatal(err)
			}
		}
		if i%10 == 0 {
			if got, err := c.of("p", []string{"H100"}); err != nil || got != others {
				t.Fatalf("after %d sets of types the cell of the others is made anew, %v", i, err)
			}
		}
	}
	held := 0
	for _, half := range []map[string]remembered{c.lately, c.past} {
		for key, known := range half {
			held += known.cell.Names.Len() + len(key)/32
		}
	}
	if held > maxWeight || held < maxWeight/4 {
		t.Errorf("holds %d names of nodes, want at most %d, and not none", held, maxWeight)
	}
}

// TestACellLargerThanTheBoundIsServed, and remembered while nothing else is asked for.
func TestACellLargerThanTheBoundIsServed(t *testing.T) {
	c := cellsOf(t, maxWeight/2+1)
	for range 2 {
		if got, err := c.of("p", nil); err != nil || got.Names.Len() != maxWeight/2+1 {
			t.Fatalf("cell of %d nodes, %v", got.Names.Len(), err)
		}
	}
}

// cellsOf has nodes of one pool and one type, H100.
func cellsOf(t *testing.T, nodes int) *cells {
	t.Helper()
	index, err := newNodeIndex(newHandle(t).SharedInformerFactory().Core().V1().Nodes().Informer())
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		if err := index.store.Add(gpuNode(fmt.Sprintf("n%06d", i), "p", "H100")); err != nil {
			t.Fatal(err)
		}
	}
	return &cells{index: index}
}
