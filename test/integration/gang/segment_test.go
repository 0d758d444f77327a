package gang

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/test/clustertest"
)

// TestAGangLiesInSegments: a job of four nodes in segments of two runs in two racks, ranks 0 and 1 in one of them. A member that is
// lost comes back into the rack of its segment.
func TestAGangLiesInSegments(t *testing.T) {
	e := newEnv(t)
	const required = "{level: rack, mode: required, segment: 2}"
	e.Submit(clustertest.Job{Name: "single", Pool: rackedPool, GPUs: 8, Nodes: 1}) // one rack has one node left
	e.Running("single", 1)
	e.Submit(clustertest.Job{Name: "train", Pool: rackedPool, GPUs: 8, Nodes: 4, Retries: 1, Topology: required})
	pods := e.Running("train", 4)
	racks := e.racksOf(pods)
	if racks[0] != racks[1] || racks[2] != racks[3] || racks[0] == racks[2] {
		t.Fatalf("the ranks run in racks %v", racks)
	}

	lost := pods[2]
	e.Evict(lost)
	e.Eventually("the lost member to be made again", func(context.Context) (bool, error) {
		return !slices.ContainsFunc(e.members("train"), func(p corev1.Pod) bool { return p.UID == lost.UID }), nil
	})
	if again := e.racksOf(e.Running("train", 4)); !slices.Equal(again, racks) {
		t.Errorf("the ranks ran in racks %v, and run in %v", racks, again)
	}
}

// TestAGangWaitsForItsSegments where there is room for all members, but not for each segment in one rack, and says how near it is.
func TestAGangWaitsForItsSegments(t *testing.T) {
	e := newEnv(t)
	e.Submit(clustertest.Job{Name: "single", Pool: rackedPool, GPUs: 8, Nodes: 1})
	e.Running("single", 1)
	e.Submit(clustertest.Job{Name: "waits", Pool: rackedPool, GPUs: 4, Nodes: 9, Topology: "{level: rack, mode: required, segment: 3}"})
	const why = "gang: only 2 of 3 segments have room in one rack each now; the most for the next is 2 of 3 in "
	e.Eventually("it to say why it waits", func(context.Context) (bool, error) {
		return slices.ContainsFunc(e.members("waits"), func(p corev1.Pod) bool {
			return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return strings.Contains(c.Message, why) })
		}), nil
	})
	for _, pod := range e.members("waits") {
		if pod.Spec.NodeName != "" {
			t.Errorf("%s is on %s", pod.Name, pod.Spec.NodeName)
		}
	}
}
