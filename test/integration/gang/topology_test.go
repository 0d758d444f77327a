package gang

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/clustertest"
)

// racksOf returns the racks of pods.
func (e *env) racksOf(pods []*corev1.Pod) (racks []string) {
	e.Helper()
	for _, pod := range pods {
		node, err := cluster.Client.CoreV1().Nodes().Get(e.Context(), pod.Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			e.Fatal(err)
		}
		racks = append(racks, node.Labels[names.LabelRack])
	}
	return racks
}

// TestAGangLiesInOneRack where its job says so, though the nodes that it would fill first are in several; the next one, which
// no rack has room for, waits and says why, and runs in several racks when that is allowed.
func TestAGangLiesInOneRack(t *testing.T) {
	e := newEnv(t)
	submit := func(name string, gpus, nodes int, topology string) {
		e.Submit(clustertest.Job{Name: name, Pool: rackedPool, GPUs: gpus, Nodes: nodes, Topology: topology})
	}
	const required = "{level: rack, mode: required}"
	submit("single", 8, 1, "") // one rack has one node left
	e.Running("single", 1)
	for _, name := range []string{"first", "second"} {
		submit(name, 8, 2, required)
		if racks := e.racksOf(e.Running(name, 2)); racks[0] != racks[1] {
			t.Errorf("%s runs in racks %v", name, racks)
		}
	}
	submit("small", 6, 1, "")
	e.Running("small", 1)
	submit("third", 8, 2, required)
	e.Eventually("the third to say why it waits", func(context.Context) (bool, error) {
		return slices.ContainsFunc(e.members("third"), func(p corev1.Pod) bool {
			return len(p.Status.Conditions) > 0 && strings.Contains(p.Status.Conditions[0].Message, "gang: ")
		}), nil
	})
	for _, pod := range e.members("third") {
		if pod.Spec.NodeName != "" {
			t.Errorf("%s is on %s", pod.Name, pod.Spec.NodeName)
		}
	}
}
