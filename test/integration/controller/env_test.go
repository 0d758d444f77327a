package controller

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/workload"
)

const (
	// patience is how long a test waits for what takes seconds on an idle machine.
	patience = 2 * time.Minute
	// soon is how long a disrupted job may take to run again once there is room for it.
	soon = 10 * time.Second
	// slack is what a busy machine may take longer.
	slack = 5 * time.Second
)

// poolsTaken counts the pools that tests have taken.
var poolsTaken atomic.Int32

// env is one test's namespace and pool.
type env struct {
	*testing.T
	namespace, pool string
	nodes           [nodesPerPool]string
	history         *history
}

func newEnv(t *testing.T) *env {
	t.Helper()
	number := int(poolsTaken.Add(1)) - 1
	if number >= pools {
		t.Fatalf("there are %d pools only", pools)
	}
	e := &env{T: t, pool: poolName(number)}
	for i := range e.nodes {
		e.nodes[i] = fmt.Sprintf("%s-%02d", e.pool, i+1)
	}
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: e.pool + "-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e.namespace = namespace.Name
	e.history = watchPods(t, e.namespace)
	return e
}

// job is what a test submits.
type job struct {
	name string
	// kind is training unless it says otherwise.
	kind     workload.Kind
	priority string
	gpus     int
	// nodes is more than one for a gang.
	nodes int
	// retries is how often it may fail.
	retries int
	// pod are annotations of its pods.
	pod map[string]string
}

// submit creates a job from its YAML, as gpuctl does.
func (e *env) submit(j job) {
	e.Helper()
	kind := cmp.Or(j.kind, workload.KindTraining)
	text := fmt.Sprintf("kind: %s\njob: {name: %s, priority: %s", kind, j.name, cmp.Or(j.priority, "medium"))
	if kind == workload.KindTraining {
		text += fmt.Sprintf(", retries: %d", j.retries)
	}
	text += fmt.Sprintf("}\nenvironment: {image: busybox}\nresources:\n  pool: %s\n  gpu: %d\n  memory: 8Gi\n", e.pool, j.gpus)
	if j.nodes > 1 {
		text += fmt.Sprintf("  nodes: %d\n", j.nodes)
	}
	docs, diagnostics := workload.Parse(j.name, []byte(text))
	if len(diagnostics) > 0 {
		e.Fatalf("%v in\n%s", diagnostics, text)
	}
	objects, _, err := render.Objects(docs[0], render.Options{Namespace: e.namespace})
	if err != nil {
		e.Fatal(err)
	}
	if top, ok := objects[0].(*batchv1.Job); ok {
		top.Spec.Template.Annotations = j.pod
	}
	if err := writer.Create(e.Context(), objects); err != nil {
		e.Fatal(err)
	}
}

// start submits a job and waits until its pods run, which it returns by rank.
func (e *env) start(j job) []*corev1.Pod {
	e.Helper()
	e.submit(j)
	return e.running(j.name, max(j.nodes, 1))
}

// running waits until so many pods of a job run, and returns them by rank.
func (e *env) running(name string, count int) []*corev1.Pod {
	e.Helper()
	var pods []*corev1.Pod
	e.eventually(fmt.Sprintf("%d pods of %s to run", count, name), func(context.Context) (bool, error) {
		pods = nil
		for _, seen := range e.history.running(name) {
			pods = append(pods, seen.pod)
		}
		return len(pods) == count, nil
	})
	return pods
}

// status is a Job's.
func (e *env) status(name string) batchv1.JobStatus {
	e.Helper()
	found, err := client.BatchV1().Jobs(e.namespace).Get(e.Context(), name, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return found.Status
}

// again waits until another pod runs in the place of one that was lost. It returns it, and how long that took from the
// moment in which there was room for it.
func (e *env) again(name string, lost *corev1.Pod, room time.Time) (*corev1.Pod, time.Duration) {
	e.Helper()
	var fresh sighting
	e.eventually(name+" to run again", func(context.Context) (done bool, err error) {
		fresh, done = e.history.successor(name, lost)
		return done, nil
	})
	return fresh.pod, fresh.running.Sub(room)
}

// againSoon is again, and fails when it took longer than it may.
func (e *env) againSoon(name string, lost *corev1.Pod, room time.Time) *corev1.Pod {
	e.Helper()
	fresh, took := e.again(name, lost, room)
	e.Logf("%s runs again on %s, %.1f s after there was room", name, fresh.Spec.NodeName, took.Seconds())
	if took > soon+slack {
		e.Errorf("%s took %s to run again, want %s at most", name, took, soon)
	}
	return fresh
}

// ended waits until a pod has ended, and returns when that was seen.
func (e *env) ended(pod *corev1.Pod) time.Time {
	e.Helper()
	var seen sighting
	e.eventually("the containers of "+pod.Name+" to end", func(context.Context) (bool, error) {
		seen = e.history.of(pod.UID)
		return !seen.ended.IsZero(), nil
	})
	return seen.ended
}

func (e *env) evict(pod *corev1.Pod) {
	e.Helper()
	err := client.PolicyV1().Evictions(e.namespace).Evict(e.Context(), &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: e.namespace},
	})
	if err != nil {
		e.Fatal(err)
	}
}

// kubectl runs the command of the docs.
func (e *env) kubectl(args ...string) string {
	e.Helper()
	out, err := cluster.Kubectl(e.Context(), args...)
	if err != nil {
		e.Fatal(err)
	}
	return string(out)
}

// report has a pod's status changed, as a kubelet does.
func (e *env) report(pod *corev1.Pod, status string) {
	e.Helper()
	_, err := client.CoreV1().Pods(e.namespace).Patch(e.Context(), pod.Name, types.StrategicMergePatchType,
		[]byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status")
	if err != nil {
		e.Fatal(err)
	}
}

// stays makes sure that nothing changes for a while.
func (e *env) stays(what string, while time.Duration, so func() bool) {
	e.Helper()
	for deadline := time.Now().Add(while); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if !so() {
			e.Fatalf("it did not stay so: %s\n%s", what, e.history)
		}
	}
}

func (e *env) eventually(what string, done wait.ConditionWithContextFunc) {
	e.Helper()
	e.within(patience, what, done)
}

func (e *env) within(limit time.Duration, what string, done wait.ConditionWithContextFunc) {
	e.Helper()
	if err := wait.PollUntilContextTimeout(e.Context(), 50*time.Millisecond, limit, true, done); err != nil {
		e.Fatalf("waiting for %s: %v\n%s", what, err, e.history)
	}
}
