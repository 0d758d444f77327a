package plugins_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/backpressure"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/test/upstream"
)

// TestAShortListCostsNoScore places random pods with and without the short list, on nodes of which some have no
// CPU left, are cordoned or tainted, while some pods are to be spread over zones or want a port. Both must find a node worth as much to GPUScore, or tell the same reason.
func TestAShortListCostsNoScore(t *testing.T) {
	const pods = 200
	for seed := range uint64(8) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 0))
			nodes := randomNodes(r, 60)
			narrow, wide := newCluster(t, nodes...), newCluster(t, nodes...)
			plugins.Wrap(narrow.scheduler, plugins.Options{})
			failed := 0
			for i := range pods {
				pod := randomPod(r, i)
				state, got, err := narrow.attempt(pod.Obj())
				wideState, _, want := wide.attempt(pod.Obj())
				value := values(wideState)
				switch {
				case fmt.Sprint(err) != fmt.Sprint(want):
					t.Fatalf("pod %d: %v with the list, %v without", i, err, want)
				case err != nil:
					failed++
				default:
					if len(value) > 0 && value[got] != best(value) {
						t.Fatalf("pod %d: went to %s, worth %d, and one of %d would do", i, got, value[got], best(value))
					}
					narrow.bind(state, pod, got)
					wide.bind(wideState, pod, got)
				}
			}
			if failed == 0 || failed > pods/2+pods/4 {
				t.Errorf("%d of %d pods found no node, so the test shows little", failed, pods)
			}
		})
	}
}

// attempt chooses a node, and returns what the plugins found out.
func (c *cluster) attempt(pod *corev1.Pod) (fwk.CycleState, string, error) {
	state := framework.NewCycleState()
	result, err := upstream.Choose(c.t.Context(), c.scheduler, names.SchedulerName, state, pod)
	return state, result.SuggestedHost, err
}

// values returns what each node that can take the pod is worth to it, none if there is but one.
func values(state fwk.CycleState) map[string]int64 {
	values := map[string]int64{}
	if scores, err := cycle.Read[*cycle.Scores](state, cycle.ScoresKey); err == nil {
		for _, candidate := range scores.BestCandidates(scores.Len()) {
			values[candidate.Node] = candidate.Score
		}
	}
	return values
}

// bind chooses the pod's cards and puts it on the node.
func (c *cluster) bind(state fwk.CycleState, pod *st.PodWrapper, node string) {
	c.t.Helper()
	profile := c.scheduler.Profiles[names.SchedulerName]
	if status := profile.RunReservePluginsReserve(c.t.Context(), state, pod.Obj(), node); !status.IsSuccess() {
		c.t.Fatal(status.AsError())
	}
	bound := pod.Obj().DeepCopy()
	bound.Spec.NodeName = node
	if err := c.scheduler.Cache.AddPod(klog.Background(), bound); err != nil {
		c.t.Fatal(err)
	}
}

func best(values map[string]int64) (best int64) {
	for _, value := range values {
		best = max(best, value)
	}
	return best
}

func randomNodes(r *rand.Rand, count int) []*corev1.Node {
	nodes := make([]*corev1.Node, count)
	for i := range nodes {
		node := gpuNode(fmt.Sprintf("n%02d", i), []string{"nvlink", "pcie"}[r.IntN(2)])
		node.Labels[names.LabelPool] = []string{"a", "b"}[r.IntN(2)]
		node.Labels[names.LabelGPUType] = []string{"A100-80G", "H100-80G"}[r.IntN(2)]
		if r.IntN(8) > 0 {
			node.Labels[corev1.LabelTopologyZone] = fmt.Sprint("zone-", r.IntN(3))
		}
		switch r.IntN(6) {
		case 0:
			node.Status.Allocatable[corev1.ResourceCPU] = *resource.NewQuantity(int64(1+r.IntN(4)), resource.DecimalSI)
		case 1:
			node.Spec.Unschedulable = true
		case 2:
			node.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
		}
		nodes[i] = node
	}
	return nodes
}

func randomPod(r *rand.Rand, i int) *st.PodWrapper {
	p := pod(fmt.Sprintf("p%03d", i), fmt.Sprint(1+r.IntN(8)), fmt.Sprint(1<<r.IntN(4))).
		Label(names.LabelPool, []string{"a", "b"}[r.IntN(2)])
	if r.IntN(2) == 0 {
		p.Annotation(names.AnnotationGPUTypes, "H100-80G,A100-80G")
	}
	if r.IntN(4) == 0 {
		p.Label(names.LabelJobType, "inference").Label(names.LabelJob, fmt.Sprint("job", r.IntN(5)))
	}
	if r.IntN(4) == 0 {
		p.Toleration("k")
	}
	if r.IntN(4) == 0 {
		p.HostPort(80)
	}
	if r.IntN(3) == 0 {
		key := []string{corev1.LabelTopologyZone, names.LabelInterconnect}[r.IntN(2)]
		p.Label("app", "a").SpreadConstraint(1, key, corev1.DoNotSchedule, st.MakeLabelSelector().Label("app", "a").Obj(), nil, nil, nil, nil)
	}
	return p
}

// TestTheExplanationKnowsTheWholeList reads what gpuctl why tells of a pod whose best node has no CPU.
func TestTheExplanationKnowsTheWholeList(t *testing.T) {
	nodes := []*corev1.Node{gpuNode("a", "pcie"), gpuNode("b", "pcie"), gpuNode("c", "pcie")}
	c := newCluster(t, nodes...)
	plugins.Wrap(c.scheduler, plugins.Options{})
	c.put(pod("x", "64", "4"), "a") // best packed, and without a core left
	c.put(pod("y", "1", "1"), "b")
	state, node, err := c.attempt(pod("p", "1", "1").Obj())
	if err != nil || node != "b" {
		t.Fatalf("the pod went to %q, %v, want b", node, err)
	}
	scores, err := cycle.Read[*cycle.Scores](state, cycle.ScoresKey)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, candidate := range scores.BestCandidates(explain.MaxCandidates) {
		got = append(got, candidate.Node)
	}
	if fmt.Sprint(got) != "[a b c]" || scores.Len() != 3 {
		t.Errorf("%d nodes were weighed, the best are %v, want all 3 as a, b, c", scores.Len(), got)
	}
}

// TestPodsWaitWhileBindingsAreUnderWay asks for the next pod with the gate closed.
func TestPodsWaitWhileBindingsAreUnderWay(t *testing.T) {
	c, gate := newCluster(t, gpuNode("a", "pcie")), backpressure.NewGate(1)
	taken := false
	upstream.OfferNothing(c.scheduler, func() { taken = true })
	plugins.Wrap(c.scheduler, plugins.Options{Gate: gate})
	synctest.Test(t, func(t *testing.T) {
		var asked sync.WaitGroup
		end := gate.BeginBinding()
		asked.Go(func() { _ = upstream.Ask(c.scheduler) })
		synctest.Wait()
		if taken {
			t.Error("a pod was taken from the queue with a binding under way")
		}
		end()
		asked.Wait()
	})
	if !taken {
		t.Error("no pod was taken when the binding had ended")
	}
}

// TestTheBindingOfTheLastPodHasBegun: on one processor its goroutine runs only when the loop gives way. Go takes the loop first all the
// same, once in sixty times.
func TestTheBindingOfTheLastPodHasBegun(t *testing.T) {
	const pods, most = 100, 20
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	c, gate := newCluster(t, gpuNode("a", "pcie")), backpressure.NewGate(1)
	upstream.OfferNothing(c.scheduler, nil)
	plugins.Wrap(c.scheduler, plugins.Options{Gate: gate})
	synctest.Test(t, func(t *testing.T) {
		var underway atomic.Int32
		beside := 0
		for range pods {
			_ = upstream.Ask(c.scheduler)
			if underway.Load() > 0 {
				beside++
			}
			underway.Add(1)
			go func() {
				end := gate.BeginBinding()
				time.Sleep(backpressure.MaxWait / 2)
				underway.Add(-1)
				end()
			}()
		}
		time.Sleep(time.Second)
		if beside > most {
			t.Errorf("%d of %d pods were taken while the binding of another had not begun", beside, pods)
		}
	})
}
