package plugins_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/plugins/gpufilter"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/upstream"
)

// politeCluster is a cluster whose API server holds the pods.
type politeCluster struct {
	*cluster
	api  corev1client.PodInterface
	pods cache.Indexer
}

func newPoliteCluster(t *testing.T, nodes ...string) *politeCluster {
	t.Helper()
	var all []*corev1.Node
	for _, name := range nodes {
		all = append(all, gpuNode(name, "pcie"))
	}
	c := &politeCluster{cluster: newCluster(t, all...)}
	plugins.Wrap(c.scheduler, plugins.Options{})
	profile := c.scheduler.Profiles[names.SchedulerName]
	c.api, c.pods = profile.ClientSet().CoreV1().Pods("default"), profile.SharedInformerFactory().Core().V1().Pods().Informer().GetIndexer()
	return c
}

// runs puts a pod with GPUs on a node, which asks for time to save its work, "" for none.
func (c *politeCluster) runs(node, name, gpus, asks string) {
	c.t.Helper()
	victim := pod(name, "1", gpus).Priority(-1).StartTime(metav1.NewTime(time.Now().Add(-time.Hour))).Phase(corev1.PodRunning)
	if asks != "" {
		victim.Annotation(names.AnnotationCheckpointGrace, asks)
	}
	c.put(victim, node)
	c.is(victim.Node(node).Obj())
}

// is has the API server and the informers know a pod.
func (c *politeCluster) is(pod *corev1.Pod) {
	c.t.Helper()
	if _, err := c.api.Create(c.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
	if err := c.pods.Add(pod); err != nil {
		c.t.Fatal(err)
	}
}

// changes a pod, as far as the informers know.
func (c *politeCluster) changes(name string, change func(*corev1.Pod)) *corev1.Pod {
	c.t.Helper()
	object, found, err := c.pods.GetByKey("default/" + name)
	if err != nil || !found {
		c.t.Fatalf("pod %s: %v", name, err)
	}
	pod := object.(*corev1.Pod).DeepCopy()
	change(pod)
	if err := c.pods.Update(pod); err != nil {
		c.t.Fatal(err)
	}
	return pod
}

// tries has a pod tried that fits nowhere, and returns where it is nominated for and what it is told.
func (c *politeCluster) tries(name string) (node, told string) {
	c.t.Helper()
	pod := c.changes(name, func(*corev1.Pod) {})
	state, profile := framework.NewCycleState(), c.scheduler.Profiles[names.SchedulerName]
	_, err := upstream.Choose(c.t.Context(), c.scheduler, names.SchedulerName, state, pod)
	var unfit *framework.FitError
	if !errors.As(err, &unfit) {
		c.t.Fatalf("scheduling ends with %v, want that it fits nowhere", err)
	}
	result, status := profile.RunPostFilterPlugins(c.t.Context(), state, pod, unfit.Diagnosis.NodeToStatus)
	if result != nil && result.NominatingInfo != nil {
		node = result.NominatedNodeName
		c.changes(name, func(pod *corev1.Pod) { pod.Status.NominatedNodeName = node })
	}
	return node, status.Message()
}

// stands says of each pod whether it was told to leave or is gone.
func (c *politeCluster) stands(pods ...string) string {
	c.t.Helper()
	var out []string
	for _, name := range pods {
		pod, err := c.api.Get(c.t.Context(), name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			out = append(out, name+" gone")
		case err != nil:
			c.t.Fatal(err)
		case pod.Annotations[names.AnnotationPreemptionNotice] != "":
			out = append(out, name+" told")
		default:
			out = append(out, name+" stays")
		}
	}
	return strings.Join(out, ", ")
}

// becomes waits until pods stand so.
func (c *politeCluster) becomes(want string, pods ...string) {
	c.t.Helper()
	err := wait.PollUntilContextTimeout(c.t.Context(), 5*time.Millisecond, bounds.Of(10*time.Second), true, func(context.Context) (bool, error) {
		return c.stands(pods...) == want, nil
	})
	if err != nil {
		c.t.Fatalf("%s, want %s", c.stands(pods...), want)
	}
}

func saves(pod *corev1.Pod) {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[names.AnnotationCheckpointedAt] = time.Now().Format(time.RFC3339)
}

// TestPreemptionOfKubernetesTellsFirst those that ask for it, and those that leave with them.
func TestPreemptionOfKubernetesTellsFirst(t *testing.T) {
	c := newPoliteCluster(t, "a")
	c.runs("a", "asks", "4", "3m")
	c.runs("a", "other", "4", "")
	c.is(pod("p", "1", "8").Priority(1).Obj())
	counted := victimsCounted(t)
	if node, _ := c.tries("p"); node != "a" {
		t.Fatalf("it is nominated for %q", node)
	}
	c.becomes("asks told, other told", "asks", "other")
	for range 2 {
		if node, told := c.tries("p"); node != "" || !reason.FindIn(told, []*reason.Reason{reason.EvictionPending})[0].Late {
			t.Errorf("it is nominated for %q, and told %q", node, told)
		}
	}
	c.becomes("asks told, other told", "asks", "other")
	c.changes("asks", saves)
	if node, _ := c.tries("p"); node != "a" {
		t.Errorf("it is nominated for %q when the last one has answered", node)
	}
	c.becomes("asks gone, other gone", "asks", "other")
	if got := victimsCounted(t) - counted; got != 2 {
		t.Errorf("%v victims are counted, want each of the two once", got)
	}
}

// victimsCounted is how many victims kube-scheduler has counted by now.
func victimsCounted(t *testing.T) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "scheduler_preemption_victims" {
			return family.GetMetric()[0].GetHistogram().GetSampleSum()
		}
	}
	t.Fatal("there is no metric of victims")
	return 0
}

// TestPreemptionOfKubernetesEvictsAtOnce where nobody asks, or nothing may be asked.
func TestPreemptionOfKubernetesEvictsAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		asks     string
		priority int32
	}{
		"nobody asks":                  {asks: "", priority: 1},
		"what is asked is no time":     {asks: "later", priority: 1},
		"for a service of the cluster": {asks: "3m", priority: 2_000_000_000},
	} {
		t.Run(name, func(t *testing.T) {
			c := newPoliteCluster(t, "a")
			c.runs("a", "victim", "8", tc.asks)
			c.is(pod("p", "1", "8").Priority(tc.priority).Obj())
			counted := victimsCounted(t)
			if node, _ := c.tries("p"); node != "a" {
				t.Fatalf("it is nominated for %q", node)
			}
			c.becomes("victim gone", "victim")
			if got := victimsCounted(t) - counted; got != 1 {
				t.Errorf("%v victims are counted, want one", got)
			}
		})
	}
}

// TestPreemptionOfKubernetesForgetsNobody: a pod whose victim was gone before it was evicted is tried again, though no news of the victim
// follows.
func TestPreemptionOfKubernetesForgetsNobody(t *testing.T) {
	c := newPoliteCluster(t, "a")
	c.put(pod("victim", "1", "8").Priority(-1).StartTime(metav1.Now()).Phase(corev1.PodRunning), "a") // the snapshot alone still has it
	p := pod("p", "1", "8").Priority(1).Obj()
	c.is(p)
	queue := c.scheduler.SchedulingQueue
	upstream.Add(queue, p)
	taken := upstream.Pop(t, queue)
	if node, told := c.tries("p"); node != "a" {
		t.Fatalf("it is nominated for %q, and told %q", node, told)
	}
	upstream.PutBack(t, queue, taken, gpufilter.Name)
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, bounds.Of(5*time.Second), true, func(context.Context) (bool, error) {
		return len(queue.PodsInActiveQ()) > 0 || len(queue.PodsInBackoffQ()) > 0, nil
	})
	if err != nil {
		t.Error("it waits for news of a pod that is gone")
	}
}

// TestPreemptionOfKubernetesTakesOthersWhereItCannotGoAnyMore: those that were told stay, though they have saved their work.
func TestPreemptionOfKubernetesTakesOthersWhereItCannotGoAnyMore(t *testing.T) {
	c := newPoliteCluster(t, "a", "b")
	c.runs("a", "asks", "8", "3m")
	c.runs("b", "more", "8", "3m")
	c.is(pod("p", "1", "8").Priority(1).Obj())
	node, _ := c.tries("p")
	victims, others := map[string]string{"a": "asks", "b": "more"}, map[string]string{"a": "b", "b": "a"}
	first, second := victims[node], victims[others[node]]
	c.becomes(first+" told", first)
	closed := gpuNode(node, "pcie")
	cordoned := closed.DeepCopy()
	cordoned.Spec.Unschedulable = true
	c.scheduler.Cache.UpdateNode(klog.Background(), closed, cordoned)
	c.changes(first, saves)
	for range 6 { // no informer tells that its nomination has ended
		if now, _ := c.tries("p"); now == others[node] {
			break
		}
	}
	c.becomes(first+" stays, "+second+" told", first, second)
}
