package gang

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/clustertest"
	"g8s.host/gpu-scheduler/test/oracle"
)

// env is one test's namespace.
type env struct{ *clustertest.Env }

func newEnv(t *testing.T) *env {
	t.Helper()
	e := &env{cluster.NewEnv(t)}
	t.Cleanup(e.cleanUp)
	return e
}

// cleanUp waits until the test's pods are gone, whose GPUs the next test needs.
func (e *env) cleanUp() {
	ctx := context.Background()
	background := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	if err := cluster.Client.BatchV1().Jobs(e.Namespace).DeleteCollection(ctx, background, metav1.ListOptions{}); err != nil {
		e.Error(err)
	}
	if err := cluster.Client.CoreV1().Namespaces().Delete(ctx, e.Namespace, metav1.DeleteOptions{}); err != nil {
		e.Error(err)
	}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, clustertest.Patience, true, func(ctx context.Context) (bool, error) {
		running := fields.AndSelectors(fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
			fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)))
		pods, err := cluster.Client.CoreV1().Pods(e.Namespace).List(ctx, metav1.ListOptions{FieldSelector: running.String()})
		return err == nil && len(pods.Items) == 0, nil
	})
	if err != nil {
		e.Errorf("the pods of %s do not go away: %v", e.Namespace, err)
	}
}

// runsFor has the members of a job succeed after a while.
func runsFor(while string) map[string]string {
	return map[string]string{sandbox.AnnotationRunFor: while}
}

// waitJob waits until a job has a condition.
func (e *env) waitJob(name string, kind batchv1.JobConditionType) {
	e.Helper()
	e.Eventually("job "+name+" to be "+string(kind), func(ctx context.Context) (bool, error) {
		job, err := cluster.Client.BatchV1().Jobs(e.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == kind && c.Status == corev1.ConditionTrue
		}), nil
	})
}

// members returns the pods of a job that have not ended.
func (e *env) members(name string) []corev1.Pod {
	e.Helper()
	list, err := cluster.Client.CoreV1().Pods(e.Namespace).List(e.Context(), metav1.ListOptions{LabelSelector: names.LabelJob + "=" + name})
	if err != nil {
		e.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil
	})
}

// TestTenGangsRunOneAfterTheOther submits ten jobs at once that each need the whole cluster.
func TestTenGangsRunOneAfterTheOther(t *testing.T) {
	e := newEnv(t)
	recorder, err := oracle.Watch(t.Context(), cluster.Client)
	if err != nil {
		t.Fatal(err)
	}
	const jobs = 10
	for i := range jobs {
		e.Submit(clustertest.Job{Name: fmt.Sprintf("job-%d", i), GPUs: gpusPerNode, Nodes: nodeCount, Pod: runsFor("1s")})
	}
	for i := range jobs {
		e.waitJob(fmt.Sprintf("job-%d", i), batchv1.JobComplete)
	}
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	history, err := recorder.Stop(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, violation := range oracle.Check(history) {
		t.Error(violation)
	}
	checkWhole(t, history.Bindings(), jobs)
}

// checkWhole demands that the members of each gang were bound with no member of another in between, each to a node of
// its own.
func checkWhole(t *testing.T, bindings []oracle.Binding, jobs int) {
	t.Helper()
	if len(bindings) != jobs*nodeCount {
		t.Fatalf("%d pods were bound, want %d", len(bindings), jobs*nodeCount)
	}
	gangOf := func(b oracle.Binding) string { // job-3-1-x7k2p
		_, pod, _ := strings.Cut(b.Pod, "/")
		return strings.Join(strings.Split(pod, "-")[:2], "-")
	}
	seen := map[string]bool{}
	for first := range slices.Chunk(bindings, nodeCount) {
		gang, nodes := gangOf(first[0]), map[string]bool{}
		for _, b := range first {
			nodes[b.Node] = true
			if gangOf(b) != gang {
				t.Errorf("%s was bound between the members of %s", b.Pod, gang)
			}
		}
		if len(nodes) != nodeCount || seen[gang] {
			t.Errorf("%s is on nodes %v, seen before: %t", gang, nodes, seen[gang])
		}
		seen[gang] = true
	}
}

// TestAGangThatCannotFitHoldsNothing needs a third node, while a job that fits runs past it.
func TestAGangThatCannotFitHoldsNothing(t *testing.T) {
	e := newEnv(t)
	e.Submit(clustertest.Job{Name: "too-wide", GPUs: 8, Nodes: 3})
	e.Eventually("the scheduler to look at all members", func(context.Context) (bool, error) {
		pods := e.members("too-wide")
		return len(pods) == 3 && !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return len(p.Status.Conditions) == 0 }), nil
	})
	e.Submit(clustertest.Job{Name: "fits", GPUs: 8, Nodes: 2, Pod: runsFor("1s")})
	e.waitJob("fits", batchv1.JobComplete)
	for _, pod := range e.members("too-wide") {
		if pod.Spec.NodeName != "" {
			t.Errorf("%s is bound, though the gang does not fit", pod.Name)
		}
	}
	gang := e.members("too-wide")
	if !slices.ContainsFunc(gang, func(p corev1.Pod) bool { return strings.Contains(p.Status.Conditions[0].Message, "gang:") }) {
		t.Errorf("no member says that it waits for the others: %v", gang[0].Status.Conditions)
	}
}

// TestAFailureEndsTheGang lets one member fail that has no retries: the other is stopped and the job has failed.
func TestAFailureEndsTheGang(t *testing.T) {
	e := newEnv(t)
	e.Submit(clustertest.Job{Name: "fails", GPUs: 8, Nodes: 2})
	e.failOne(e.Running("fails", 2))
	e.waitJob("fails", batchv1.JobFailed)
	e.Eventually("the other member to be stopped", func(context.Context) (bool, error) { return len(e.members("fails")) == 0, nil })
}

// TestAMemberThatFailedComesBack lets one member fail that has a retry: it gets its place again beside the other.
func TestAMemberThatFailedComesBack(t *testing.T) {
	e := newEnv(t)
	e.Submit(clustertest.Job{Name: "retries", GPUs: 8, Nodes: 2, Retries: 1})
	before := e.Running("retries", 2)
	e.failOne(before)
	e.Eventually("a new member to run", func(context.Context) (bool, error) {
		pods := e.members("retries")
		return len(pods) == 2 && pods[0].Status.Phase == corev1.PodRunning && pods[1].Status.Phase == corev1.PodRunning &&
			!slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.UID == before[0].UID }), nil
	})
}

// TestAMemberThatFailsAfterOthersHaveSucceededComesBackAlone has one member succeed and the other fail, which has a retry:
// it does not wait for the one that will not come back, and the job ends.
func TestAMemberThatFailsAfterOthersHaveSucceededComesBackAlone(t *testing.T) {
	e := newEnv(t)
	e.Submit(clustertest.Job{Name: "alone", GPUs: 8, Nodes: 2, Retries: 1})
	pods := e.Running("alone", 2)
	e.annotate(pods[0], sandbox.AnnotationRunFor, "10ms")
	e.Eventually("one member to have succeeded", func(context.Context) (bool, error) { return len(e.members("alone")) == 1, nil })
	e.annotate(pods[1], sandbox.AnnotationFailAfter, "10ms")
	e.Eventually("the other to be there again, and to run", func(context.Context) (bool, error) {
		left := e.members("alone")
		return len(left) == 1 && left[0].UID != pods[1].UID && left[0].Status.Phase == corev1.PodRunning, nil
	})
	e.annotate(&e.members("alone")[0], sandbox.AnnotationRunFor, "10ms")
	e.waitJob("alone", batchv1.JobComplete)
}

// failOne ends the first of the pods, as a kubelet reports it.
func (e *env) failOne(pods []*corev1.Pod) {
	e.Helper()
	e.annotate(pods[0], sandbox.AnnotationFailAfter, "10ms")
}

// annotate says what becomes of a pod.
func (e *env) annotate(pod *corev1.Pod, key, value string) {
	e.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if _, err := cluster.Client.CoreV1().Pods(e.Namespace).Patch(e.Context(), pod.Name,
		"application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		e.Fatal(err)
	}
}
