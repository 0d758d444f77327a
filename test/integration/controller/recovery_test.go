package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/workload"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/clustertest"
)

const (
	// bound is how long a node must be silent before its pods are ended: --out-of-service-after.
	bound = 40 * time.Second
	// registers is how long after its creation a node that is not ready counts as one that starts, and a second.
	registers = 11 * time.Second
)

// nodeWatch is what was seen of the taints of a node.
type nodeWatch struct {
	mu   sync.Mutex
	seen map[string][]time.Time // when each taint came
	now  map[string]bool
}

func (e *env) watchNode(name string) *nodeWatch {
	e.Helper()
	watcher, err := cluster.Client.CoreV1().Nodes().Watch(e.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		e.Fatal(err)
	}
	w := &nodeWatch{seen: map[string][]time.Time{}, now: map[string]bool{}}
	go func() {
		for event := range watcher.ResultChan() {
			if node, ok := event.Object.(*corev1.Node); ok && event.Type != watch.Deleted {
				w.see(node, time.Now())
			}
		}
	}()
	e.Cleanup(watcher.Stop)
	return w
}

func (w *nodeWatch) see(node *corev1.Node, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	after := map[string]bool{}
	for _, taint := range node.Spec.Taints {
		after[taint.Key] = true
		if !w.now[taint.Key] {
			w.seen[taint.Key] = append(w.seen[taint.Key], at)
		}
	}
	w.now = after
}

// has says whether a node has a taint now.
func (w *nodeWatch) has(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now[key]
}

// came is when a taint came, each time.
func (w *nodeWatch) came(key string) []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen[key])
}

// cameFirst waits until a taint has come, and returns when it did first: what was seen of the pods may be ahead of it.
func (e *env) cameFirst(w *nodeWatch, key string) time.Time {
	e.Helper()
	e.Eventually("taint "+key, func(context.Context) (bool, error) { return len(w.came(key)) > 0, nil })
	return w.came(key)[0]
}

// death is when the kubelet of a node was stopped, and when it had given its last sign of life, by its lease.
type death struct {
	node     string
	at, sign time.Time
}

// kill stops the kubelet of a node, as a power cut does. Kubernetes notices at once if noticed says so.
func (e *env) kill(node string, noticed bool) death {
	e.Helper()
	read, err := cluster.Client.CoreV1().Nodes().Get(e.Context(), node, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	time.Sleep(time.Until(read.CreationTimestamp.Add(registers)))
	at := time.Now()
	if err := sandbox.StopKubelet(e.Context(), cluster.Client, node, noticed); err != nil {
		e.Fatal(err)
	}
	time.Sleep(time.Until(at.Add(time.Second))) // for a renewal that was on its way
	lease, err := cluster.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(e.Context(), node, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return death{node: node, at: at, sign: lease.Spec.RenewTime.Time}
}

func (e *env) revive(node string) {
	e.Helper()
	if err := sandbox.StartKubelet(e.Context(), cluster.Client, node); err != nil {
		e.Fatal(err)
	}
}

// told waits for an event on an object.
func (e *env) told(namespace, name, reason, text string) {
	e.Helper()
	e.Eventually("the event "+reason+" on "+name, func(ctx context.Context) (bool, error) {
		list, err := cluster.Client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
		return err == nil && slices.ContainsFunc(list.Items, func(event eventsv1.Event) bool {
			return event.Regarding.Name == name && strings.Contains(event.Note, text)
		}), err
	})
}

// standBy starts one more controller, and returns a function that kills the one that leads.
func (e *env) standBy() (takeOver func()) {
	e.Helper()
	next, err := startController(e.Context(), fmt.Sprintf("controller-%d", controllers.Add(1)))
	if err != nil {
		e.Fatal(err)
	}
	return func() {
		e.Helper()
		if err := controller.Kill(); err != nil {
			e.Fatal(err)
		}
		controller = next
	}
}

// once checks that no rank of a job ran twice: each pod of it was placed after the one before it had ended, and that was not
// before its machine was certainly off.
func (e *env) once(name string, killed death) {
	e.Helper()
	var before clustertest.Sighting
	for _, seen := range e.History.OfJob(name) {
		if before.Pod != nil && clustertest.Rank(before.Pod) == clustertest.Rank(seen.Pod) {
			if before.Ended.IsZero() || seen.Bound.Before(before.Ended) {
				e.Errorf("%s was placed while %s had not ended", seen.Pod.Name, before.Pod.Name)
			}
			if silent := before.Ended.Sub(killed.sign); before.Pod.Spec.NodeName == killed.node && silent < bound {
				e.Errorf("%s was ended %s after the last sign of life of its node: it may have run on", before.Pod.Name, silent)
			}
		}
		before = seen
	}
}

// TestJobsOfADeadNodeRunElsewhere cuts the power of nodes, and lets Kubernetes notice when it does.
func TestJobsOfADeadNodeRunElsewhere(t *testing.T) {
	t.Parallel()
	tests := map[string]clustertest.Job{
		"a training job":  {Name: "sft", GPUs: 8},
		"a small one":     {Name: "lora", GPUs: 1},
		"a notebook":      {Name: "book", GPUs: 1, Kind: workload.KindNotebook},
		"a service":       {Name: "llm", GPUs: 2, Kind: workload.KindInference},
		"a gang of three": {Name: "pretrain", GPUs: 8, Nodes: 3},
	}
	for name, j := range tests {
		for _, noticed := range []bool{false, true} {
			if noticed {
				name += ", noticed at once"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				pods := e.Start(j)
				node := pods[0].Spec.NodeName
				seen := e.watchNode(node)
				killed := e.kill(node, noticed)
				fresh, took := e.Again(j.Name, pods[0], killed.at)
				if fresh.Spec.NodeName == node {
					t.Errorf("it runs again on the node that is dead")
				}
				condition, declared := e.cameFirst(seen, corev1.TaintNodeUnreachable), e.cameFirst(seen, corev1.TaintNodeOutOfService)
				t.Logf("%s: noticed %.1f s after the power cut, declared %.1f s, runs again %.1f s",
					j.Name, condition.Sub(killed.at).Seconds(), declared.Sub(killed.at).Seconds(), took.Seconds())
				e.Running(j.Name, max(j.Nodes, 1))
				if j.Kind == "" {
					e.once(j.Name, killed)
					if status := e.Status(j.Name); status.Failed != 0 {
						t.Errorf("the job has failed %d times", status.Failed)
					}
				}
				if suspect := e.cameFirst(seen, names.TaintSuspect); suspect.Sub(condition) > bounds.Of(2*time.Second) {
					t.Errorf("the node was closed %s after the condition, want 2 s at most on an idle machine", suspect.Sub(condition))
				}
				e.told("default", node, "NodeOutOfService", "no sign of life")
			})
		}
	}
}

// TestAGangMovesAsAUnit: the members that the dead node has not hurt are ended with it, and pay nothing for that.
func TestAGangMovesAsAUnit(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	members := e.Start(clustertest.Job{Name: "pretrain", GPUs: 8, Nodes: 4})
	killed := e.kill(members[2].Spec.NodeName, true)
	for i, member := range members {
		members[i], _ = e.Again("pretrain", member, killed.at)
	}
	e.once("pretrain", killed)
	if status := e.Status("pretrain"); status.Failed != 0 {
		t.Errorf("the job has failed %d times", status.Failed)
	}
}

// TestADeadNodeIsGivenBack has it come back after its jobs have moved.
func TestADeadNodeIsGivenBack(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	pod := e.Start(clustertest.Job{Name: "sft", GPUs: 8})[0]
	node := pod.Spec.NodeName
	seen := e.watchNode(node)
	killed := e.kill(node, true)
	e.Again("sft", pod, killed.at)
	e.revive(node)
	e.Eventually(node+" to be in service", func(context.Context) (bool, error) { return !seen.has(corev1.TaintNodeOutOfService), nil })
	if !seen.has(names.TaintSuspect) {
		t.Error("the node was trusted at once")
	}
	e.Eventually(node+" to be trusted", func(context.Context) (bool, error) { return !seen.has(names.TaintSuspect), nil })
	e.told("default", node, "NodeTrusted", "well for")
	if len(e.History.OfJob("sft")) != 2 {
		t.Errorf("the job had more than two pods:\n%s", e.History)
	}
}

// TestATransientFaultHealsItself: a node that is away for less long than the bound loses no pod.
func TestATransientFaultHealsItself(t *testing.T) {
	bounds.SkipInShort(t)
	t.Parallel()
	e := newEnv(t)
	pod := e.Start(clustertest.Job{Name: "sft", GPUs: 8})[0]
	seen := e.watchNode(pod.Spec.NodeName)
	e.kill(pod.Spec.NodeName, true)
	e.Eventually("the node to be suspect", func(context.Context) (bool, error) { return seen.has(names.TaintSuspect), nil })
	time.Sleep(15 * time.Second)
	e.revive(pod.Spec.NodeName)
	e.Eventually("the node to be trusted", func(context.Context) (bool, error) { return !seen.has(names.TaintSuspect), nil })
	e.Stays("the pod runs", 30*time.Second, func() bool { return e.History.Of(pod.UID).Ended.IsZero() })
	if len(seen.came(corev1.TaintNodeOutOfService)) > 0 {
		t.Error("the node was called out of service")
	}
}

// TestAFlappingNodeMakesNoStorm: it is closed once, and gets new pods long after it has calmed down.
func TestAFlappingNodeMakesNoStorm(t *testing.T) {
	bounds.SkipInShort(t)
	t.Parallel()
	e := newEnv(t)
	pod := e.Start(clustertest.Job{Name: "sft", GPUs: 8})[0]
	seen := e.watchNode(pod.Spec.NodeName)
	for range 4 {
		e.kill(pod.Spec.NodeName, true)
		time.Sleep(1500 * time.Millisecond)
		e.revive(pod.Spec.NodeName)
		time.Sleep(1500 * time.Millisecond)
	}
	calm := time.Now()
	e.Eventually("the node to be trusted", func(context.Context) (bool, error) { return !seen.has(names.TaintSuspect), nil })
	if left := time.Since(calm); left < 20*time.Second {
		t.Errorf("the node was trusted %s after it had failed four times, want a minute", left)
	}
	if came := seen.came(names.TaintSuspect); len(came) != 1 {
		t.Errorf("it was closed %d times", len(came))
	}
	if !e.History.Of(pod.UID).Ended.IsZero() {
		t.Error("its pod was ended")
	}
}

// TestTooManyDeadNodesAreNobodysWord: two of five nodes are more than the budget, so that both wait; when one of them is
// back, the other one is dead.
func TestTooManyDeadNodesAreNobodysWord(t *testing.T) {
	bounds.SkipInShort(t)
	t.Parallel()
	e := newEnv(t)
	first, second := e.Start(clustertest.Job{Name: "a", GPUs: 8})[0], e.Start(clustertest.Job{Name: "b", GPUs: 8})[0]
	killed := e.kill(first.Spec.NodeName, true)
	e.kill(second.Spec.NodeName, true)
	e.told("default", first.Spec.NodeName, "NodeNotDeclaredDead", "2 of the 5 nodes of the pool seem dead at once")
	e.Stays("both jobs wait", 25*time.Second, func() bool { return len(e.History.OfJob("a"))+len(e.History.OfJob("b")) == 2 })
	e.revive(second.Spec.NodeName)
	e.Again("a", first, killed.at)
	e.once("a", killed)
	if !e.History.Of(second.UID).Ended.IsZero() {
		t.Error("the job of the node that came back was ended")
	}
}

// TestAPodThatIsNotToBeMovedStays until a person decides.
func TestAPodThatIsNotToBeMovedStays(t *testing.T) {
	bounds.SkipInShort(t)
	t.Parallel()
	e := newEnv(t)
	pod := e.Start(clustertest.Job{Name: "sft", GPUs: 8, Pod: map[string]string{names.AnnotationNoMigration: names.True}})[0]
	killed := e.kill(pod.Spec.NodeName, true)
	e.told("default", pod.Spec.NodeName, "NodeNotDeclaredDead", "is not to be moved without a person")
	e.Kubectl("taint", "node", pod.Spec.NodeName, "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute")
	e.Again("sft", pod, killed.at)
	e.Stays("the taint of a person stays", 2*time.Second, func() bool {
		node, err := cluster.Client.CoreV1().Nodes().Get(t.Context(), pod.Spec.NodeName, metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Value == "nodeshutdown" })
	})
}

// TestTheWordOfACloudIsEnough: a machine that its cloud calls off needs no silence.
func TestTheWordOfACloudIsEnough(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	pod := e.Start(clustertest.Job{Name: "sft", GPUs: 8})[0]
	killed := e.kill(pod.Spec.NodeName, true)
	e.Kubectl("taint", "node", pod.Spec.NodeName, "node.cloudprovider.kubernetes.io/shutdown=:NoSchedule")
	if _, took := e.Again("sft", pod, killed.at); took > bound {
		t.Errorf("it took %s, want less than the silence that it needs without", took)
	}
}

// TestABrokenRecordIsLeftAlone: what nobody can read is not written over.
func TestABrokenRecordIsLeftAlone(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	node := e.Nodes[0]
	e.Kubectl("annotate", "node", node, names.AnnotationHealth+"=many")
	seen := e.watchNode(node)
	e.kill(node, true)
	e.told("default", node, "UnreadableHealth", names.AnnotationHealth)
	e.Stays("it is left alone", 2*time.Second, func() bool { return !seen.has(names.TaintSuspect) })
	e.Kubectl("annotate", "node", node, names.AnnotationHealth+"-")
	e.Eventually("it to be suspect", func(context.Context) (bool, error) { return seen.has(names.TaintSuspect), nil })
}

// TestANewLeaderKnowsHowLongANodeIsSilent kills the controller while a node is: one that stood by has counted, too.
func TestANewLeaderKnowsHowLongANodeIsSilent(t *testing.T) { // not beside the others, who need a controller
	e := newEnv(t)
	standBy := e.standBy()
	pod := e.Start(clustertest.Job{Name: "sft", GPUs: 8})[0]
	killed := e.kill(pod.Spec.NodeName, true)
	time.Sleep(20 * time.Second)
	standBy()
	_, took := e.Again("sft", pod, killed.at)
	t.Logf("runs again %.1f s after the power cut", took.Seconds())
	if took > bounds.Of(75*time.Second) {
		t.Errorf("it took %s, want no longer than with one leader", took)
	}
	e.once("sft", killed)
}

// TestANodeWithABadConditionIsClosed: something on the node has found a GPU that is broken, and then says that it is mended.
func TestANodeWithABadConditionIsClosed(t *testing.T) {
	bounds.SkipInShort(t)
	t.Parallel()
	e := newEnv(t)
	pod := e.Start(clustertest.Job{Name: "sft", GPUs: 8})[0]
	node := pod.Spec.NodeName
	seen := e.watchNode(node)
	say := func(status corev1.ConditionStatus) {
		e.Kubectl("patch", "node", node, "--subresource=status", "-p", fmt.Sprintf(
			`{"status":{"conditions":[{"type":"XIDFatal","status":%q,"lastTransitionTime":%q}]}}`, status, time.Now().UTC().Format(time.RFC3339)))
	}
	say(corev1.ConditionTrue)
	e.Within(bounds.Of(2*time.Second), node+" to be closed", func(context.Context) (bool, error) { return seen.has(names.TaintSuspect), nil })
	e.told("default", node, "NodeSuspect", "its condition XIDFatal is true")
	e.Stays(node+" is closed, and its pod runs", 12*time.Second, func() bool {
		return seen.has(names.TaintSuspect) && e.History.Of(pod.UID).Ended.IsZero()
	})
	say(corev1.ConditionFalse)
	e.Eventually(node+" to be trusted", func(context.Context) (bool, error) { return !seen.has(names.TaintSuspect), nil })
}
