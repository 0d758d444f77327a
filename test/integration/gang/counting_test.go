package gang

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/clustertest"
	"g8s.host/gpu-scheduler/test/fixture"
)

// soon is how long what needs no waiting may take on a busy machine. Members wait for each other for 30 s.
var soon = bounds.Of(12 * time.Second)

// group makes a PodGroup one of so many members.
func (e *env) group(name string, members int) {
	e.Helper()
	untyped, err := dynamic.NewForConfig(cluster.RESTConfig())
	if err != nil {
		e.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": int64(members)}}}
	object.SetAPIVersion(names.PodGroupAPIVersion)
	object.SetKind(names.PodGroupKind)
	object.SetName(name)
	resource := schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}
	// Applied, so that a PodGroup that is there gets another size.
	if _, err := untyped.Resource(resource).Namespace(e.Namespace).Apply(e.Context(), name, object, metav1.ApplyOptions{FieldManager: "test"}); err != nil {
		e.Fatal(err)
	}
}

// member creates a pod of a PodGroup that takes a whole node.
func (e *env) member(group, name string, change ...func(*corev1.Pod)) {
	e.Helper()
	pod := fixture.Pod(name).GPUs(gpusPerNode).Label(names.LabelPodGroup, group).Obj()
	for _, change := range change {
		change(pod)
	}
	if _, err := cluster.Client.CoreV1().Pods(e.Namespace).Create(e.Context(), pod, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
}

// waitBound waits until a pod has a node, and demands that it is soon.
func (e *env) waitBound(name string) {
	e.Helper()
	began := time.Now()
	e.Eventually(name+" to be bound", func(ctx context.Context) (bool, error) {
		pod, err := cluster.Client.CoreV1().Pods(e.Namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && pod.Spec.NodeName != "", err
	})
	if took := time.Since(began); took > soon {
		e.Errorf("%s was bound after %s, want at most %s", name, took.Round(time.Millisecond), soon)
	}
}

// waitTold waits until the scheduler says something of a pod.
func (e *env) waitTold(name, want string) {
	e.Helper()
	e.Eventually(name+" to be told "+want, func(ctx context.Context) (bool, error) {
		pod, err := cluster.Client.CoreV1().Pods(e.Namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return strings.Contains(c.Message, want) }), err
	})
}

// staysUnbound demands that pods get no node for a while.
func (e *env) staysUnbound(names ...string) {
	e.Helper()
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		for _, name := range names {
			pod, err := cluster.Client.CoreV1().Pods(e.Namespace).Get(e.Context(), name, metav1.GetOptions{})
			if err != nil {
				e.Fatal(err)
			}
			if pod.Spec.NodeName != "" {
				e.Fatalf("%s is bound to %s", name, pod.Spec.NodeName)
			}
		}
	}
}

// TestAMemberComesBackUnderANewLeader, which stood by while the gang was placed: it knows the members that run, and the one
// that is started again waits for nobody.
func TestAMemberComesBackUnderANewLeader(t *testing.T) {
	e := newEnv(t)
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	standby, err := cluster.StartScheduler(ctx, sandbox.SchedulerOptions{Name: fmt.Sprint("gpu-scheduler-", time.Now().Unix())})
	if err != nil {
		t.Fatal(err)
	}
	e.Submit(clustertest.Job{Name: "job", GPUs: 8, Nodes: 2, Retries: 1})
	before := e.Running("job", 2)
	if err := cluster.Scheduler.Kill(); err != nil {
		t.Fatal(err)
	}
	cluster.Scheduler = standby
	e.failOne(before)
	e.Eventually("the failed member to be gone", func(context.Context) (bool, error) {
		return !slices.ContainsFunc(e.members("job"), func(p corev1.Pod) bool { return p.UID == before[0].UID }), nil
	})
	began := time.Now()
	e.Running("job", 2)
	if took := time.Since(began); took > soon {
		t.Errorf("the member is back after %s, want at most %s", took, soon)
	}
}

// TestMembersThatAnotherBoundCount: here the administrator, else a leader that is gone.
func TestMembersThatAnotherBoundCount(t *testing.T) {
	e := newEnv(t)
	e.group("g", 2)
	e.member("g", "bound", func(p *corev1.Pod) { p.Spec.SchedulerName = "nobody" })
	e.member("g", "last")
	e.waitTold("last", "name another scheduler")
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "bound"}, Target: corev1.ObjectReference{Kind: "Node", Name: "gang-01"}}
	if err := cluster.Client.CoreV1().Pods(e.Namespace).Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.waitBound("last")
}

// TestANewJobDoesNotStartOnMembersThatLeave has a pod of a job of the same name end slowly, on one of the two nodes.
func TestANewJobDoesNotStartOnMembersThatLeave(t *testing.T) {
	e := newEnv(t)
	of := func(uid string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "x/v1", Kind: "Job", Name: "job", UID: types.UID(uid), Controller: ptr.To(true)}}
		}
	}
	e.group("g", 1)
	e.member("g", "old", of("old"), func(p *corev1.Pod) {
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](3600)
		p.Annotations = map[string]string{sandbox.AnnotationStopAfter: "30m"}
	})
	e.Eventually("old to run, as a pod that does not ends at once when it is deleted", func(ctx context.Context) (bool, error) {
		old, err := cluster.Client.CoreV1().Pods(e.Namespace).Get(ctx, "old", metav1.GetOptions{})
		return err == nil && old.Status.Phase == corev1.PodRunning, err
	})
	if err := cluster.Client.CoreV1().Pods(e.Namespace).Delete(t.Context(), "old", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.group("g", 2)
	for _, name := range []string{"new-1", "new-2"} {
		e.member("g", name, of("new"))
	}
	e.waitTold("new-2", "room for 1 of 2 members now")
	e.staysUnbound("new-1", "new-2")
	e.release("old", fmt.Sprintf(`{"metadata":{"annotations":{%q:"0s"}}}`, sandbox.AnnotationStopAfter))
	e.waitBound("new-1")
	e.waitBound("new-2")
}

func (e *env) release(pod, patch string) {
	e.Helper()
	_, err := cluster.Client.CoreV1().Pods(e.Namespace).Patch(e.Context(), pod, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		e.Fatal(err)
	}
}

// TestPlacesAreKeptForAGangWhileOthersLeave: one that is evicted takes its time. Nobody else is evicted meanwhile, nor takes
// the node that is idle, and the gang starts when it has left.
func TestPlacesAreKeptForAGangWhileOthersLeave(t *testing.T) {
	e := newEnv(t)
	e.member("", "low", func(p *corev1.Pod) {
		p.Spec.PriorityClassName = "g8s-low"
		p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](3600)
		p.Annotations = map[string]string{sandbox.AnnotationStopAfter: "30m"}
	})
	e.waitBound("low")
	e.group("g", 2)
	for _, name := range []string{"high-1", "high-2"} {
		e.member("g", name, func(p *corev1.Pod) { p.Spec.PriorityClassName = "g8s-high" })
	}
	e.waitTold("high-2", "room for 1 of 2 members now")
	e.Eventually("low to be evicted, and all members to be nominated", func(ctx context.Context) (bool, error) {
		low, err := cluster.Client.CoreV1().Pods(e.Namespace).Get(ctx, "low", metav1.GetOptions{})
		if err != nil || low.DeletionTimestamp == nil {
			return false, err
		}
		nodes := map[string]bool{}
		for _, name := range []string{"high-1", "high-2"} {
			high, err := cluster.Client.CoreV1().Pods(e.Namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			nodes[high.Status.NominatedNodeName] = true
		}
		return len(nodes) == 2 && !nodes[""], nil
	})
	e.member("", "sneak", func(p *corev1.Pod) { p.Spec.PriorityClassName = "g8s-medium" })
	e.staysUnbound("high-1", "high-2", "sneak")
	e.release("low", fmt.Sprintf(`{"metadata":{"annotations":{%q:"0s"}}}`, sandbox.AnnotationStopAfter))
	e.waitBound("high-1")
	e.waitBound("high-2")
	e.staysUnbound("sneak")
}

// TestWhatIsNoRoomForAGang: an empty node that the members may not go to, and one with too few healthy cards. No member
// takes a place meanwhile, and all start when it is mended.
func TestWhatIsNoRoomForAGang(t *testing.T) {
	tests := map[string]struct {
		broken, mended string
		told           string
	}{
		"a taint": {
			`{"spec":{"taints":[{"key":"team","value":"x","effect":"NoSchedule"}]}}`, `{"spec":{"taints":null}}`,
			"room for 1 of 2 members, even when they are empty",
		},
		"a node that is cordoned": {`{"spec":{"unschedulable":true}}`, `{"spec":{"unschedulable":null}}`, "room for 1 of 2 members now"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			patch := func(text string) {
				_, err := cluster.Client.CoreV1().Nodes().Patch(context.Background(), "gang-02", types.MergePatchType, []byte(text), metav1.PatchOptions{})
				if err != nil {
					t.Fatal(err)
				}
			}
			patch(tc.broken)
			t.Cleanup(func() { patch(tc.mended) })
			e.group("g", 2)
			e.member("g", "a")
			e.member("g", "b")
			e.waitTold("b", tc.told)
			e.staysUnbound("a", "b")
			patch(tc.mended)
			e.waitBound("a")
			e.waitBound("b")
		})
	}
}
