package plugins_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/plugins/gpureserve"
)

// keptNodes is how many nodes of a pool it takes for one of them to be kept whole, by default.
const keptNodes = 250

// churned is a cluster in which one node of a pool is idle, the others are taken, and as many pods have come lately as
// have left. On the last node a card is free; with small ones, each of these has one, too.
func churned(t *testing.T, small ...*corev1.Node) *cluster {
	t.Helper()
	nodes := small
	for i := range keptNodes {
		nodes = append(nodes, gpuNode(fmt.Sprintf("n%03d", i), "pcie"))
	}
	c := newCluster(t, nodes...)
	plugins.Wrap(c.scheduler, plugins.Options{})
	informer := c.scheduler.Profiles[names.SchedulerName].SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer()
	settle := func(generation int) {
		for i, node := range nodes {
			gpus := "8"
			switch node.Name {
			case "n000":
				continue
			case fmt.Sprintf("n%03d", keptNodes-1), fmt.Sprintf("s%03d", i):
				gpus = "7"
			}
			resident := pod(fmt.Sprintf("g%d-%03d", generation, i), "8", gpus).Node(node.Name).Obj()
			must(t, informer.Add(resident))
			if generation > 0 {
				must(t, informer.Delete(pod(fmt.Sprintf("g%d-%03d", generation-1, i), "8", gpus).Obj()))
			} else {
				must(t, c.scheduler.Cache.AddPod(klog.Background(), resident))
			}
		}
	}
	for generation := range 3 {
		settle(generation)
		for range 64 { // attempts, of which some have another forecast made
			if _, err := c.try(pod("other", "1", "9").Obj()); err == nil {
				t.Fatal("a pod of 9 GPUs was placed on a node of 8")
			}
		}
	}
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestTheLastIdleNodeIsKeptWhole has the shipped configuration decide who gets the last idle node of a pool.
func TestTheLastIdleNodeIsKeptWhole(t *testing.T) {
	c := churned(t)
	last := fmt.Sprintf("n%03d", keptNodes-1)
	for name, tc := range map[string]struct {
		pod  *st.PodWrapper
		want string // the node, or the reason
	}{
		"a pod that takes a node as a whole gets it":  {pod("p", "8", "8"), "n000"},
		"a pod of two GPUs does not":                  {pod("p", "2", "2"), "1 node(s) are kept whole for pods that take a whole node"},
		"one that may evict others does":              {pod("p", "2", "2").Priority(1000), "n000"},
		"a pod of one GPU has another place":          {pod("p", "2", "1"), last},
		"a notebook, which only fills holes, gets it": {pod("p", "2", "2").Label(names.LabelJobType, "notebook"), "n000"},
	} {
		t.Run(name, func(t *testing.T) {
			node, err := c.try(tc.pod.Obj())
			if got := node + fmt.Sprint(err); !strings.Contains(got, tc.want) {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

// TestAShortListOfKeptNodesIsNotTheEnd lets a pod prefer the type of the idle node over that of many others, which are
// all alike: the best of the nodes are that one alone.
func TestAShortListOfKeptNodesIsNotTheEnd(t *testing.T) {
	var small []*corev1.Node
	for i := range 30 {
		node := gpuNode(fmt.Sprintf("s%03d", i), "pcie")
		node.Labels[names.LabelGPUType] = "A800-80G"
		small = append(small, node)
	}
	c := churned(t, small...)
	c.put(pod("last", "1", "1"), fmt.Sprintf("n%03d", keptNodes-1))
	wants := pod("p", "2", "1").Annotation(names.AnnotationGPUTypes, "A100-80G,A800-80G").Obj()
	if node, err := c.try(wants); err != nil || !strings.HasPrefix(node, "s") {
		t.Errorf("the pod went to %q, %v, want one of the other type", node, err)
	}
}

// TestKeepingComesLast holds that a node is kept only from pods that would fit there, so that its reason is why they wait.
func TestKeepingComesLast(t *testing.T) {
	enabled := newCluster(t).scheduler.Profiles[names.SchedulerName].ListPlugins().Filter.Enabled
	if last := enabled[len(enabled)-1].Name; last != gpureserve.Name {
		t.Errorf("the last plugin at Filter is %s, want %s", last, gpureserve.Name)
	}
}
