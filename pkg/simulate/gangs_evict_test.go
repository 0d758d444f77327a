package simulate

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	_ "g8s.host/gpu-scheduler/pkg/apis/config/scheme"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// lab is an engine whose pods are given turns one by one, as kube-scheduler would, with what is written on them. Victims
// stay until a test takes them away.
type lab struct {
	*testing.T
	engine *engine
	bound  map[types.NamespacedName]*corev1.Pod
}

// newLab has nodes n00, n01 and so on with 8 GPUs each, and pods on them.
func newLab(t *testing.T, nodes int, onNodes []*corev1.Pod, arrivals []Arrival) *lab {
	t.Helper()
	data, err := os.ReadFile("../../manifests/scheduler/scheduler-config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := ParseConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadPolicyFiles(cfg); err != nil {
		t.Fatal(err)
	}
	cluster := nodesOfEight(nodes)
	cluster.Pods = onNodes
	cluster.Groups = collectGroups(cluster, arrivals)
	engine, err := newEngine(t.Context(), cfg, cluster, Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{T: t, engine: engine, bound: map[types.NamespacedName]*corev1.Pod{}}
	for _, pod := range onNodes {
		l.bound[podKey(pod)] = pod
	}
	return l
}

func nodesOfEight(count int) Cluster {
	var nodes []trace.Node
	for i := range count {
		nodes = append(nodes, trace.Node{Name: fmt.Sprintf("n%02d", i), MilliCPU: 64_000, MemoryMiB: 1 << 19, GPUs: 8, Model: "T4"})
	}
	return Cluster{Nodes: NodesFromTrace(nodes)}
}

// trainings are training jobs that ask for 8 GPUs of so many nodes, by name, priority and nodes.
func trainings(t *testing.T, documents ...[3]any) []Arrival {
	t.Helper()
	var texts []string
	for _, d := range documents {
		texts = append(texts, fmt.Sprintf("kind: training\njob: {name: %s, priority: %s}\nenvironment: {image: i}\n"+
			"resources: {pool: default, gpu: 8, nodes: %d}\n", d[0], d[1], d[2]))
	}
	arrivals, err := ParseWorkload("jobs.yaml", []byte(strings.Join(texts, "---\n")), nodesOfEight(1))
	if err != nil {
		t.Fatal(err)
	}
	return arrivals
}

// arrive has the pods of arrivals come, and returns them.
func (l *lab) arrive(arrivals []Arrival) []*corev1.Pod {
	l.Helper()
	var pods []*corev1.Pod
	for i := range arrivals {
		if err := l.engine.addPendingPod(arrivals[i].Pod); err != nil {
			l.Fatal(err)
		}
		pods = append(pods, arrivals[i].Pod)
	}
	return pods
}

// turn is one attempt of a pod. It returns the pod with what was written on it.
func (l *lab) turn(pod *corev1.Pod) (*corev1.Pod, outcome) {
	l.Helper()
	out, err := l.engine.attemptPod(l.Context(), pod)
	if err != nil {
		l.Fatal(err)
	}
	for _, bound := range out.bound {
		l.bound[podKey(bound)] = bound
	}
	for _, name := range out.evicted {
		l.terminate(name)
	}
	if out.nominated == "" {
		return pod, out
	}
	pod = pod.DeepCopy()
	pod.Status.NominatedNodeName = out.nominated
	if err := l.engine.pods.Update(pod); err != nil {
		l.Fatal(err)
	}
	l.engine.nominations.updateNomination(pod)
	return pod, out
}

// terminate does what the API server does with a victim: it has a deletion timestamp and stays for its grace period.
func (l *lab) terminate(name types.NamespacedName) {
	l.Helper()
	old := l.bound[name]
	if old == nil || old.DeletionTimestamp != nil {
		return
	}
	pod := old.DeepCopy()
	now := metav1.NewTime(time.Now())
	pod.DeletionTimestamp = &now
	if err := l.engine.pods.Update(pod); err != nil {
		l.Fatal(err)
	}
	if err := l.engine.scheduler.Cache.UpdatePod(klog.Background(), old, pod); err != nil {
		l.Fatal(err)
	}
	l.bound[name] = pod
}

func boundTo(node string, arrival Arrival) *corev1.Pod {
	pod := arrival.Pod.DeepCopy()
	pod.Spec.NodeName = node
	return pod
}

// TestAsManyLeaveForAGangAsItTakes: when one node is missing one job does, and not one for each member; and nobody does when
// the gang could not start all the same. When they have left it starts.
func TestAsManyLeaveForAGangAsItTakes(t *testing.T) {
	low := func(jobs int) []string { return slices.Repeat([]string{"low"}, jobs) }
	tests := map[string]struct {
		// priorities are of the jobs on the first nodes; the others are idle.
		priorities []string
		nodes      int
		members    int
		evicted    int
	}{
		"one node is missing, and jobs of low priority hold eight":    {priorities: low(8), nodes: 15, members: 8, evicted: 1},
		"three of four nodes are held by jobs of the gang's priority": {priorities: []string{"low", "high", "high", "high"}, nodes: 4, members: 4},
		"all nodes are held by jobs of low priority":                  {priorities: low(2), nodes: 2, members: 2, evicted: 2},
		"one job of medium priority holds what low ones hold, too":    {priorities: []string{"medium", "low", "low"}, nodes: 4, members: 3, evicted: 2},
		"it is larger than the cluster":                               {priorities: low(2), nodes: 2, members: 3},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var running []*corev1.Pod
			for i, priority := range tc.priorities {
				running = append(running, boundTo(fmt.Sprintf("n%02d", i), trainings(t, [3]any{fmt.Sprint("job", i), priority, 1})[0]))
			}
			gang := trainings(t, [3]any{"gang", "high", tc.members})
			l := newLab(t, tc.nodes, running, gang)
			pods := l.arrive(gang)
			evicted := map[types.NamespacedName]bool{}
			for round := range 3 {
				for i := range pods {
					var out outcome
					pods[i], out = l.turn(pods[i])
					if out.held || len(out.bound) > 0 || len(out.evicted) > 0 && out.nominated == "" {
						t.Errorf("round %d, member %d: evicts %v for %q, has a place: %t", round, i, out.evicted, out.nominated, out.held)
					}
					for _, name := range out.evicted {
						evicted[name] = true
					}
					if !strings.Contains(out.verdict, "gang: the") {
						t.Errorf("round %d, member %d is told %q", round, i, out.verdict)
					}
				}
			}
			if len(evicted) != tc.evicted {
				t.Fatalf("%v are evicted, want %d", evicted, tc.evicted)
			}
			if tc.evicted > 0 {
				l.start(pods, evicted)
			}
		})
	}
}

// start has victims leave, and demands that all members run then.
func (l *lab) start(members []*corev1.Pod, victims map[types.NamespacedName]bool) {
	l.Helper()
	for name := range victims {
		if priority := l.bound[name].Spec.PriorityClassName; priority != "g8s-low" {
			l.Errorf("%s is evicted, of priority %s", name, priority)
		}
		if err := l.engine.removeBoundPod(l.Context(), l.bound[name]); err != nil {
			l.Fatal(err)
		}
	}
	bound := 0
	for _, pod := range members {
		_, out := l.turn(pod)
		bound += len(out.bound)
		if len(out.evicted) > 0 {
			l.Errorf("%v are evicted, though others have left", out.evicted)
		}
	}
	if bound != len(members) {
		l.Errorf("%d of %d members run when the others have left", bound, len(members))
	}
}

// TestOneMemberOfARunningGangEvictsForItself: a member that is started again is placed like any other pod.
func TestOneMemberOfARunningGangEvictsForItself(t *testing.T) {
	gang := trainings(t, [3]any{"gang", "high", 3})
	running := []*corev1.Pod{boundTo("n00", gang[0]), boundTo("n01", gang[1]), boundTo("n02", trainings(t, [3]any{"low", "low", 1})[0])}
	l := newLab(t, 3, running, gang)
	_, out := l.turn(l.arrive(gang[2:])[0])
	if len(out.evicted) != 1 || out.nominated != "n02" {
		t.Errorf("evicted %v for node %q, want one job on n02", out.evicted, out.nominated)
	}
}

// TestAGangThatTheLastLeaderHalfBoundIsCompleted: this scheduler saw nothing of how the others got their places.
func TestAGangThatTheLastLeaderHalfBoundIsCompleted(t *testing.T) {
	gang := trainings(t, [3]any{"gang", "high", 4})
	var running []*corev1.Pod
	for i := range 2 {
		running = append(running, boundTo(fmt.Sprintf("n%02d", i), gang[i]))
	}
	l := newLab(t, 4, running, gang)
	pods := l.arrive(gang[2:])
	if _, out := l.turn(pods[0]); !out.held {
		t.Errorf("the third member does not wait for the fourth: %+v", out)
	}
	if _, out := l.turn(pods[1]); len(out.bound) != 2 {
		t.Errorf("the fourth starts with %d members, want the third with it: %+v", len(out.bound), out)
	}
}

// TestANewJobDoesNotStartOnTheMembersOfTheOneBefore that has its name and is being deleted.
func TestANewJobDoesNotStartOnTheMembersOfTheOneBefore(t *testing.T) {
	before, gang := trainings(t, [3]any{"gang", "high", 3}), trainings(t, [3]any{"gang", "high", 3})
	var running []*corev1.Pod
	for i := range before {
		old := boundTo(fmt.Sprintf("n%02d", i), before[i])
		old.Name, old.UID = "old-"+old.Name, "old-"+old.UID
		running = append(running, old)
	}
	l := newLab(t, 4, running, gang)
	for _, old := range running {
		l.terminate(podKey(old))
	}
	for _, pod := range l.arrive(gang) {
		if _, out := l.turn(pod); len(out.bound) > 0 || out.held {
			t.Errorf("%s has a place, and there is room for one of three: %+v", pod.Name, out)
		}
	}
}
