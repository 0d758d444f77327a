package disruption

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/workload"
)

const (
	// patience is how long a test waits for what takes seconds on an idle machine.
	patience = 2 * time.Minute
	// soon is how long a job may take to run again once there is room for it and Kubernetes has not put it off before.
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
	// leaves is after how many seconds the job leaves a node that is gone, instead of Kubernetes' five minutes.
	leaves *int
	// retries is how often it may fail; 3 is gpuctl's own default.
	retries *int
	// pod are annotations that tell what the simulated containers do.
	pod map[string]string
}

// submit creates a job from its YAML, as gpuctl does.
func (e *env) submit(j job) {
	e.Helper()
	if j.kind == "" {
		j.kind = workload.KindTraining
	}
	text := fmt.Sprintf("kind: %s\njob: {name: %s, priority: %s", j.kind, j.name, cmpOr(j.priority, "medium"))
	if j.retries != nil {
		text += fmt.Sprintf(", retries: %d", *j.retries)
	}
	text += fmt.Sprintf("}\nenvironment: {image: busybox}\nresources:\n  pool: %s\n  gpu: %d\n  memory: 8Gi\n", e.pool, j.gpus)
	if j.nodes > 1 {
		text += fmt.Sprintf("  nodes: %d\n", j.nodes)
	}
	if j.leaves != nil {
		text += "  tolerations:\n"
		for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
			text += fmt.Sprintf("  - {key: %s, operator: Exists, effect: NoExecute, toleration-seconds: %d}\n", key, *j.leaves)
		}
	}
	docs, diagnostics := workload.Parse(j.name, []byte(text))
	if len(diagnostics) > 0 {
		e.Fatalf("%v in\n%s", diagnostics, text)
	}
	objects, _, err := render.Objects(docs[0], render.Options{Namespace: e.namespace})
	if err != nil {
		e.Fatal(err)
	}
	switch top := objects[0].(type) {
	case *batchv1.Job:
		top.Spec.Template.Annotations = j.pod
	case *appsv1.Deployment:
		top.Spec.Template.Annotations = j.pod
	}
	if err := writer.Create(e.Context(), objects); err != nil {
		e.Fatal(err)
	}
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// start submits a job and waits until its pods run. It returns one of them, of a gang the first.
func (e *env) start(j job) *corev1.Pod {
	e.Helper()
	e.submit(j)
	return e.running(j.name, max(j.nodes, 1))[0]
}

// running waits until so many pods of a job run, and returns them in the order of their ranks.
func (e *env) running(name string, count int) []*corev1.Pod {
	e.Helper()
	var pods []*corev1.Pod
	e.eventually(fmt.Sprintf("%d pods of %s to run", count, name), func(context.Context) (bool, error) {
		pods = e.history.running(name)
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

// shown is what `gpuctl get jobs` shows of a job.
func (e *env) shown(name string) inventory.Job {
	e.Helper()
	found, err := inventory.NewReader(client).Job(e.Context(), e.namespace, name)
	if err != nil {
		e.Fatal(err)
	}
	return found
}

// shows waits until `gpuctl get jobs` shows a job with a status and a reason.
func (e *env) shows(name string, status inventory.Status, reason string) {
	e.Helper()
	e.eventually(fmt.Sprintf("%s to be shown as %s (%s)", name, status, reason), func(context.Context) (bool, error) {
		shown := e.shown(name)
		return shown.Status == status && shown.Reason == reason, nil
	})
}

// again waits until another pod runs in the place of one that was lost, and returns it. room is when there was room for
// it; it must run soon after that.
func (e *env) again(name string, lost *corev1.Pod, room time.Time) *corev1.Pod {
	e.Helper()
	return e.againWithin(name, lost, room, soon)
}

func (e *env) againWithin(name string, lost *corev1.Pod, room time.Time, most time.Duration) *corev1.Pod {
	e.Helper()
	var fresh sighting
	e.eventually(name+" to run again", func(context.Context) (done bool, err error) {
		fresh, done = e.history.successor(name, lost)
		return done, nil
	})
	took := fresh.running.Sub(room)
	e.Logf("%s runs again on %s, %.1f s after there was room", name, fresh.pod.Spec.NodeName, took.Seconds())
	if took > most+slack {
		e.Errorf("%s took %s to run again, want %s", name, took, most)
	}
	return fresh.pod
}

// ended waits until the containers of a pod have ended, and returns how, and when that was seen.
func (e *env) ended(pod *corev1.Pod) (*corev1.Pod, time.Time) {
	e.Helper()
	var seen sighting
	e.eventually("the containers of "+pod.Name+" to end", func(context.Context) (bool, error) {
		seen = e.history.of(pod.UID)
		return !seen.ended.IsZero(), nil
	})
	return seen.pod, seen.ended
}

// disrupted checks that a pod's end is marked as a disruption, by whom.
func (e *env) disrupted(pod *corev1.Pod, reason string) {
	e.Helper()
	if got := disruption(pod); got != reason {
		e.Errorf("pod %s was disrupted by %q, want %q", pod.Name, got, reason)
	}
}

// disruption is the reason of the condition DisruptionTarget, "" without it.
func disruption(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
			return condition.Reason
		}
	}
	return ""
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

// remove deletes a pod, nil being with the grace that it asks for.
func (e *env) remove(pod *corev1.Pod, grace *int64) {
	e.Helper()
	if err := client.CoreV1().Pods(e.namespace).Delete(e.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: grace}); err != nil {
		e.Fatal(err)
	}
}

// cancel deletes a job with its pods.
func (e *env) cancel(name string) {
	e.Helper()
	background := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	if err := client.BatchV1().Jobs(e.namespace).Delete(e.Context(), name, background); err != nil {
		e.Fatal(err)
	}
}

func (e *env) cordon(node string, closed bool) {
	e.Helper()
	verb := "uncordon"
	if closed {
		verb = "cordon"
	}
	e.kubectl(verb, node)
	e.eventually(node+" to be tainted as it should be", func(ctx context.Context) (bool, error) {
		read, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		return err == nil && closed == tainted(read, corev1.TaintNodeUnschedulable), err
	})
}

func tainted(node *corev1.Node, key string) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == key {
			return true
		}
	}
	return false
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
			e.Fatalf("it did not stay so: %s", what)
		}
	}
}

func (e *env) eventually(what string, done wait.ConditionWithContextFunc) {
	e.Helper()
	if err := wait.PollUntilContextTimeout(e.Context(), 50*time.Millisecond, patience, true, done); err != nil {
		e.Fatalf("waiting for %s: %v\n%s", what, err, e.history)
	}
}
