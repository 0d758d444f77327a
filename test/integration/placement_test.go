package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

func TestPoolsAreIsolated(t *testing.T) {
	e := newEnv(t)
	pools := []string{"training", "inference", "dev", names.DefaultPool}
	poolOf := map[string]string{}
	for _, pool := range pools {
		for i := range 18 {
			node := fixture.Node(fmt.Sprintf("%s-%d", pool, i)).GPUs(8, "A100-80G")
			if pool != names.DefaultPool {
				node.Pool(pool)
			}
			poolOf[node.Obj().Name] = pool
			e.createNodes(node.Obj())
		}
	}

	// A quarter each asks by node selector, a quarter by label alone; of pool default, half say nothing at all.
	const count = 500
	asked := map[string]string{}
	for i := range count {
		pod := fixture.Pod(fmt.Sprintf("pod-%d", i)).GPUs(1)
		pool := pools[i%len(pools)]
		switch {
		case i/len(pools)%2 == 0 && pool != names.DefaultPool:
			pod.Pool(pool)
		case i/len(pools)%2 == 0:
		default:
			pod.Label(names.LabelPool, pool)
		}
		asked[pod.Obj().Name] = pool
		e.createPods(pod.Obj())
	}

	outside := 0
	for _, pod := range e.waitAllBound(count) {
		if poolOf[pod.Spec.NodeName] != asked[pod.Name] {
			outside++
			t.Errorf("%s asked for pool %s and is on %s", pod.Name, asked[pod.Name], pod.Spec.NodeName)
		}
	}
	t.Logf("%d of %d pods outside their pool", outside, count)
}

func TestGPUPodsArePacked(t *testing.T) {
	e := newEnv(t)
	for i := range 4 {
		e.createNodes(fixture.Node(fmt.Sprintf("node-%d", i)).Pool("packing").GPUs(8, "A100-80G").Obj())
	}
	var pods []*corev1.Pod
	for i := range 16 {
		pods = append(pods, fixture.Pod(fmt.Sprintf("pod-%d", i)).GPUs(1).Pool("packing").Obj())
	}
	used := map[string]int{}
	for _, node := range e.runOneByOne(pods...) {
		used[node]++
	}
	if len(used) != 2 {
		t.Errorf("16 pods of one GPU are spread over %v, want two full nodes of 8", used)
	}
}

// TestDefaultScorersDoNotUndoOurs has every stock scorer that knows a reason to prefer the empty node say so: the packed
// one is short of cores, is tainted PreferNoSchedule and lacks the label that the pods wish for. Notebooks fill nodes up;
// LeastFragmentation itself may leave a node alone that is short of cores.
func TestDefaultScorersDoNotUndoOurs(t *testing.T) {
	e := newEnv(t)
	e.createNodes(
		fixture.Node("packed").Pool("p").GPUs(8, "A100-80G").AvoidIfPossible().Obj(),
		fixture.Node("empty").Pool("p").GPUs(8, "A100-80G").Label("wished", "yes").Obj())
	first := fixture.Pod("first").GPUs(1).CPU(90).Pool("p").Select(corev1.LabelHostname, "packed").Obj()
	pods := []*corev1.Pod{first}
	for i := range 6 {
		pods = append(pods, fixture.Pod(fmt.Sprintf("pod-%d", i)).GPUs(1).CPU(5).Pool("p").Prefer("wished", "yes").Label(names.LabelJobType, configv1.JobTypeNotebook).Obj())
	}
	for i, node := range e.runOneByOne(pods...) {
		if node != "packed" {
			t.Errorf("%s went to the %s node", pods[i].Name, node)
		}
	}
}

func TestCPUPodsAreKeptOffGPUNodes(t *testing.T) {
	e := newEnv(t)
	for i := range 3 {
		e.createNodes(
			fixture.Node(fmt.Sprintf("gpu-%d", i)).GPUs(8, "A100-80G").Obj(),
			fixture.Node(fmt.Sprintf("cpu-%d", i)).Obj())
	}
	// Pods may be told of before nodes are: once the last node takes one, the scheduler knows all.
	e.runOneByOne(fixture.Pod("first").Select(corev1.LabelHostname, "cpu-2").Obj())
	const count = 60
	for i := range count {
		e.createPods(fixture.Pod(fmt.Sprintf("pod-%d", i)).Obj())
	}
	for _, pod := range e.waitAllBound(count + 1) {
		if strings.HasPrefix(pod.Spec.NodeName, "gpu-") {
			t.Errorf("%s needs no GPU and is on %s", pod.Name, pod.Spec.NodeName)
		}
	}
}

func TestContainersAreCountedAsKubernetesCountsThem(t *testing.T) {
	tests := map[string]struct {
		pod  *fixture.PodBuilder
		fits bool
	}{
		"two containers add up to the node": {
			pod: fixture.Pod("pod").GPUs(4).Container("second", 4), fits: true,
		},
		"two containers add up to more than the node": {
			pod: fixture.Pod("pod").GPUs(4).Container("second", 5),
		},
		"an init container has ended when the others start": {
			pod: fixture.Pod("pod").GPUs(8).InitContainer("init", 8), fits: true,
		},
		"an init container alone asks for more than the node": {
			pod: fixture.Pod("pod").GPUs(1).InitContainer("init", 9),
		},
		"a sidecar runs beside the others": {
			pod: fixture.Pod("pod").GPUs(8).Sidecar("sidecar", 1),
		},
		"the sum overflows 63 bits": {
			pod: fixture.Pod("pod").GPUs(1<<63-1).Container("second", 1<<63-1),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.createNodes(fixture.Node("node").Pool("counting").GPUs(8, "A100-80G").Obj())
			e.createPods(tc.pod.Pool("counting").Obj())
			if tc.fits {
				e.waitBound("pod")
				return
			}
			t.Log(e.waitUnschedulable("pod"))
		})
	}
}
