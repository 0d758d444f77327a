package clustertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"g8s.host/gpu-scheduler/test/bounds"
)

const (
	// Patience is how long a test waits for what takes seconds on an idle machine.
	Patience = bounds.Patience
	// Soon is how long a disrupted job may take to run again once there is room for it.
	Soon = 10 * time.Second
)

// Env is one test's part of the cluster: a namespace, and perhaps a pool.
type Env struct {
	*testing.T
	Cluster         *Cluster
	Namespace, Pool string
	// Nodes are those of the pool.
	Nodes   []string
	History *History
}

// NewEnv makes a namespace for a test.
func (c *Cluster) NewEnv(t *testing.T) *Env {
	t.Helper()
	namespace, err := c.Client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e := &Env{T: t, Cluster: c, Namespace: namespace.Name}
	e.History = watchPods(e)
	return e
}

// NewEnvWithPool makes a namespace for a test and gives it a pool that no other test has.
func (c *Cluster) NewEnvWithPool(t *testing.T) *Env {
	t.Helper()
	number := int(c.poolsTaken.Add(1)) - 1
	if number >= len(c.Fleet.Groups) {
		t.Fatalf("there are %d pools only: let TestMain make more", len(c.Fleet.Groups))
	}
	group := c.Fleet.Groups[number]
	e := c.NewEnv(t)
	e.Pool = group.Pool
	for i := range group.Count {
		e.Nodes = append(e.Nodes, fmt.Sprintf("%s-%02d", group.NamePrefix, i+1))
	}
	return e
}

// Running waits until so many pods of a job run, and returns them by rank.
func (e *Env) Running(name string, count int) []*corev1.Pod {
	e.Helper()
	var pods []*corev1.Pod
	e.Eventually(fmt.Sprintf("%d pods of %s to run", count, name), func(context.Context) (bool, error) {
		pods = nil
		for _, seen := range e.History.Running(name) {
			pods = append(pods, seen.Pod)
		}
		return len(pods) == count, nil
	})
	return pods
}

// Status is a Job's.
func (e *Env) Status(name string) batchv1.JobStatus {
	e.Helper()
	found, err := e.Cluster.Client.BatchV1().Jobs(e.Namespace).Get(e.Context(), name, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return found.Status
}

// Again waits until another pod runs in the place of one that was lost. It returns it, and how long that took from the
// moment in which there was room for it.
func (e *Env) Again(name string, lost *corev1.Pod, room time.Time) (*corev1.Pod, time.Duration) {
	e.Helper()
	var fresh Sighting
	e.Eventually(name+" to run again", func(context.Context) (done bool, err error) {
		fresh, done = e.History.Successor(name, lost)
		return done, nil
	})
	return fresh.Pod, fresh.Running.Sub(room)
}

// AgainSoon is Again, and fails when it took longer than Soon.
func (e *Env) AgainSoon(name string, lost *corev1.Pod, room time.Time) *corev1.Pod {
	e.Helper()
	return e.AgainWithin(Soon, name, lost, room)
}

// AgainWithin is Again, and fails when it took longer than it may.
func (e *Env) AgainWithin(most time.Duration, name string, lost *corev1.Pod, room time.Time) *corev1.Pod {
	e.Helper()
	fresh, took := e.Again(name, lost, room)
	e.Logf("%s runs again on %s, %.1f s after there was room", name, fresh.Spec.NodeName, took.Seconds())
	if limit := bounds.Of(most); took > limit {
		e.Errorf("%s took %s to run again, want %s at most", name, took, limit)
	}
	return fresh
}

// Ended waits until the containers of a pod have ended.
func (e *Env) Ended(pod *corev1.Pod) Sighting {
	e.Helper()
	var seen Sighting
	e.Eventually("the containers of "+pod.Name+" to end", func(context.Context) (bool, error) {
		seen = e.History.Of(pod.UID)
		return !seen.Ended.IsZero(), nil
	})
	return seen
}

// Evict asks the API server to evict a pod.
func (e *Env) Evict(pod *corev1.Pod) {
	e.Helper()
	err := e.Cluster.Client.PolicyV1().Evictions(e.Namespace).Evict(e.Context(), &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: e.Namespace},
	})
	if err != nil {
		e.Fatal(err)
	}
}

// Kubectl runs the command of the docs.
func (e *Env) Kubectl(args ...string) string {
	e.Helper()
	out, err := e.Cluster.RunKubectl(e.Context(), args...)
	if err != nil {
		e.Fatal(err)
	}
	return string(out)
}

// Report has a pod's status changed, as a kubelet does.
func (e *Env) Report(pod *corev1.Pod, status string) {
	e.Helper()
	_, err := e.Cluster.Client.CoreV1().Pods(e.Namespace).Patch(e.Context(), pod.Name, types.StrategicMergePatchType,
		[]byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status")
	if err != nil {
		e.Fatal(err)
	}
}

// Stays makes sure that nothing changes for a while.
func (e *Env) Stays(what string, while time.Duration, so func() bool) {
	e.Helper()
	for deadline := time.Now().Add(while); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if !so() {
			e.Fatalf("it did not stay so: %s\n%s", what, e.History)
		}
	}
}

// Eventually waits with Patience.
func (e *Env) Eventually(what string, done wait.ConditionWithContextFunc) {
	e.Helper()
	e.Within(Patience, what, done)
}

// Within waits until something is so, and shows the pods where it does not come in time.
func (e *Env) Within(limit time.Duration, what string, done wait.ConditionWithContextFunc) {
	e.Helper()
	if err := wait.PollUntilContextTimeout(e.Context(), 50*time.Millisecond, limit, true, done); err != nil {
		e.Fatalf("waiting for %s: %v\n%s", what, err, e.History)
	}
}
