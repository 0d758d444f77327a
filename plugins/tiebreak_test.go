package plugins_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"g8s.host/gpu-scheduler/plugins"
)

// TestEqualNodesAreChosenByThePod has nodes that no plugin tells apart. Chance would send a pod of 200 to another node
// than before nearly always.
func TestEqualNodesAreChosenByThePod(t *testing.T) {
	const count, pods = 8, 200
	choose := func(seed uint64) []string {
		nodes := make([]*corev1.Node, count)
		for i := range nodes {
			nodes[i] = st.MakeNode().Name(fmt.Sprintf("n%d", i)).Capacity(map[corev1.ResourceName]string{"cpu": "64", "pods": "110"}).Obj()
		}
		c := newCluster(t, nodes...)
		plugins.Wrap(c.scheduler, plugins.Options{Seed: seed})
		chosen := make([]string, pods)
		for i := range chosen {
			name := fmt.Sprintf("p%d", i)
			_, node, err := c.attempt(st.MakePod().Namespace("ns").Name(name).UID(name).Obj())
			if err != nil {
				t.Fatal(err)
			}
			chosen[i] = node
		}
		return chosen
	}
	first, again, other := choose(0), choose(0), choose(1)
	used, moved := map[string]int{}, 0
	for i := range first {
		if first[i] != again[i] {
			t.Errorf("pod %d went to %s and then to %s", i, first[i], again[i])
		}
		if first[i] != other[i] {
			moved++
		}
		used[first[i]]++
	}
	for i := range count {
		if n := used[fmt.Sprintf("n%d", i)]; n < pods/count/3 {
			t.Errorf("%d of %d pods went to node %d of %d equal ones, want about %d", n, pods, i, count, pods/count)
		}
	}
	if moved < pods/2 {
		t.Errorf("another seed moves %d of %d pods", moved, pods)
	}
}
