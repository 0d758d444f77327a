package chaos

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/fixture"
	"g8s.host/gpu-scheduler/test/oracle"
)

const (
	// A gang takes 60 of the 320 GPUs. In each round three come and three run, which is more than there is room for, and eight
	// pods of one GPU are in their way. Its bindings take so long that a leader can end in the middle of them.
	gangSize      = 60
	gangGPUs      = 1
	gangsPerRound = 3
	singles       = 8
	// mostMore is how many rounds there may be more until a leader has ended in the middle of a gang: its bindings take some
	// hundredths of a second, and so does the news of the first.
	mostMore = 24
)

// halfPlaced is how long a gang may have some of its places and not all of them: until the next leader binds, and some
// seconds for a busy machine.
var halfPlaced = afterCrash + 10*time.Second

// gangs are the gangs of one test, beside the load's other pods.
type gangs struct {
	*load
	groups dynamic.ResourceInterface
	names  []string
	ended  int // of the gangs, in order
	lone   int
}

func newGangs(t *testing.T) *gangs {
	t.Helper()
	untyped, err := dynamic.NewForConfig(cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	l := newLoad(t)
	resource := schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}
	return &gangs{load: l, groups: untyped.Resource(resource).Namespace(l.namespace)}
}

// TestGangsOutliveTheirLeaders ends the leader while it binds gangs, by a kill in one round and by a stop in the next, from
// which it wakes up when another leads. Every gang is placed whole, and none stays half placed.
func TestGangsOutliveTheirLeaders(t *testing.T) {
	bounds.SkipInShort(t)
	replicas, g := startReplicas(t), newGangs(t)
	rounds := *kills + *stops
	for round := 0; round < rounds || round < rounds+mostMore && len(g.shared()) == 0; round++ {
		g.round(replicas, round%2 == 1)
	}
	g.end(len(g.names))
	g.must(g.create("all-nodes", 40, 8)) // no GPU is lost
	g.whole()
	g.judge()
	g.judgeGangs()
}

// round has gangs come, ends the leader when the first of their members is bound, and waits until all gangs are whole.
func (g *gangs) round(replicas *replicas, stop bool) {
	g.Helper()
	leader, old := replicas.leader(), epoch(g.T)
	offset := g.offset()
	changes, err := client.CoreV1().Pods(g.namespace).Watch(g.Context(), metav1.ListOptions{LabelSelector: names.LabelPodGroup})
	g.must(err)
	defer changes.Stop()
	submitted := make(chan error, 1)
	go func() { submitted <- g.submit() }()
	g.bind(changes, offset+1)
	if stop {
		g.must(leader.Signal(syscall.SIGSTOP))
		awaitOtherEpoch(g.T, old)
		g.boundAfter(old)
		g.must(leader.Signal(syscall.SIGCONT))
		awaitEnd(g.T, leader)
	} else {
		g.must(leader.Kill())
	}
	g.must(<-submitted)
	g.must(replicas.start())
	g.boundAfter(old)
	g.end(len(g.names) - gangsPerRound)
	g.whole()
}

// bind waits until so many members are bound, by a watch of its own: a gang's bindings take some hundredths of a second.
func (g *gangs) bind(changes watch.Interface, count int) {
	g.Helper()
	timeout := time.After(patience)
	for bound := map[types.UID]bool{}; len(bound) < count; {
		select {
		case event := <-changes.ResultChan():
			if pod, ok := event.Object.(*corev1.Pod); ok && event.Type == watch.Modified && pod.Spec.NodeName != "" {
				bound[pod.UID] = true
			}
		case <-timeout:
			g.Fatalf("waited %s for %d members to be bound, and %d are\n%s", patience, count, len(bound), g.waiting())
		}
	}
}

// offset makes the leader end at another moment in each round: when so many members of the first gang are bound.
func (g *gangs) offset() int { return 7 * len(g.names) % (gangSize / 2) }

func (g *gangs) must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

// submit creates the gangs and pods of a round.
func (g *gangs) submit() error {
	for range gangsPerRound {
		if err := g.create(fmt.Sprint("gang-", len(g.names)), gangSize, gangGPUs); err != nil {
			return err
		}
	}
	for range singles {
		if err := g.createPod(fixture.Pod(fmt.Sprint("lone-", g.lone)).Pool(pool).GPUs(1).Obj()); err != nil {
			return err
		}
		g.lone++
	}
	return nil
}

// create makes a PodGroup and its members, which one controller made.
func (g *gangs) create(name string, members int, gpus int64) error {
	group := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": int64(members)}}}
	group.SetAPIVersion(names.PodGroupAPIVersion)
	group.SetKind(names.PodGroupKind)
	group.SetName(name)
	if _, err := g.groups.Create(g.Context(), group, metav1.CreateOptions{}); err != nil {
		return err
	}
	g.names = append(g.names, name)
	for i := range members {
		pod := fixture.Pod(fmt.Sprintf("%s-member-%d", name, i)).Pool(pool).GPUs(gpus).Label(names.LabelPodGroup, name).Obj()
		pod.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: "batch/v1", Kind: "Job", Name: name, UID: types.UID(g.namespace + name), Controller: ptr.To(true),
		}}
		if err := g.createPod(pod); err != nil {
			return err
		}
	}
	return nil
}

func (g *gangs) createPod(pod *corev1.Pod) error {
	created, err := client.CoreV1().Pods(g.namespace).Create(g.Context(), pod, metav1.CreateOptions{})
	if err == nil {
		g.submitted = append(g.submitted, created)
	}
	return err
}

// end ends the first of the gangs, whole, and the pods of one GPU.
func (g *gangs) end(count int) {
	g.Helper()
	patch := fmt.Appendf(nil, `{"status":{"phase":%q}}`, corev1.PodSucceeded)
	finish := map[string]bool{}
	for ; g.ended < count; g.ended++ {
		finish[g.names[g.ended]] = true
	}
	for _, binding := range g.recorder.History().Bindings() {
		name := strings.TrimPrefix(binding.Pod, g.namespace+"/")
		if gang, _, member := strings.Cut(name, "-member-"); member && !finish[gang] {
			continue
		}
		_, err := client.CoreV1().Pods(g.namespace).Patch(g.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		g.must(err)
	}
}

// whole waits until all pods are bound.
func (g *gangs) whole() {
	g.Helper()
	for deadline := time.Now().Add(patience); len(g.recorder.History().Bindings()) < len(g.submitted); time.Sleep(poll) {
		if time.Now().After(deadline) {
			g.Fatalf("not all gangs are whole after %s\n%s", patience, g.waiting())
		}
	}
}

// await waits for something to happen to the bindings, and ends no pod meanwhile: a gang of which one has ended is none.
func (g *gangs) await(what string, done func([]oracle.Binding) bool) {
	g.Helper()
	for deadline := time.Now().Add(patience); !done(g.recorder.History().Bindings()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			g.Fatalf("waited %s for %s\n%s", patience, what, g.waiting())
		}
	}
}

// boundAfter waits for the first binding of another leadership than epoch.
func (g *gangs) boundAfter(epoch string) {
	g.Helper()
	g.await("the next leader to bind a pod", func(bindings []oracle.Binding) bool {
		for _, binding := range bindings {
			if binding.Epoch != "" && termOf(g.T, binding.Epoch) > termOf(g.T, epoch) {
				return true
			}
		}
		return false
	})
}

// judgeGangs demands of the history that no gang was half placed for long. It logs how many were when their leader ended.
func (g *gangs) judgeGangs() {
	g.Helper()
	all, shared, longest := g.placed(), g.shared(), time.Duration(0)
	for gang, at := range all {
		took := at.last.Sub(at.first)
		if longest = max(longest, took); took > halfPlaced {
			g.Errorf("%s was half placed for %s, want at most %s", gang, took.Round(time.Millisecond), halfPlaced)
		}
	}
	if len(shared) == 0 {
		g.Error("no gang was bound by two leaders, so nothing shows that the second knows the members of the first")
	}
	g.Logf("%d gangs, of which two leaders bound %d; the longest was half placed for %s", len(all), len(shared), longest.Round(time.Millisecond))
}

// places is when the first and the last member of a gang was bound, and by which leaderships.
type places struct {
	first, last time.Time
	epochs      map[string]bool
}

// placed are the places of each gang.
func (g *gangs) placed() map[string]*places {
	all := map[string]*places{}
	for _, binding := range g.recorder.History().Bindings() {
		gang, _, member := strings.Cut(binding.Pod, "-member-")
		if !member {
			continue
		}
		if all[gang] == nil {
			all[gang] = &places{first: binding.Seen, epochs: map[string]bool{}}
		}
		all[gang].last = binding.Seen
		all[gang].epochs[binding.Epoch] = true
	}
	return all
}

// shared are the gangs that two leaders have bound.
func (g *gangs) shared() (names []string) {
	for gang, at := range g.placed() {
		if len(at.epochs) > 1 {
			names = append(names, gang)
		}
	}
	return names
}
