package defrag

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/defrag"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/fixture"
)

const patience = bounds.Patience

// env is one test's namespace. Its pods are gone when the test ends.
type env struct {
	*testing.T
	namespace string
}

func newEnv(t *testing.T) *env {
	t.Helper()
	return newEnvIn(t, nil)
}

// newEnvIn is newEnv in a namespace with labels.
func newEnvIn(t *testing.T, labels map[string]string) *env {
	t.Helper()
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "defrag-", Labels: labels}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	e := &env{T: t, namespace: namespace.Name}
	t.Cleanup(e.cleanUp)
	return e
}

func (e *env) cleanUp() {
	ctx := context.Background()
	withPods := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)}
	if err := client.AppsV1().Deployments(e.namespace).DeleteCollection(ctx, withPods, metav1.ListOptions{}); err != nil {
		e.Error(err)
	}
	e.wait(ctx, "the pods to be gone", func(ctx context.Context) (bool, error) {
		left, err := client.AppsV1().ReplicaSets(e.namespace).List(ctx, metav1.ListOptions{})
		if err != nil || len(left.Items) > 0 {
			return false, err
		}
		err = client.CoreV1().Pods(e.namespace).DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		list, err := client.CoreV1().Pods(e.namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0, err
	})
}

func (e *env) wait(ctx context.Context, what string, done wait.ConditionWithContextFunc) {
	e.Helper()
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true, done); err != nil {
		e.Fatalf("waiting for %s: %v", what, err)
	}
}

// deploy has a Deployment run one pod on a node, which it may leave.
func (e *env) deploy(name, node string, gpus, cores int64, changes ...func(*corev1.Pod)) {
	e.Helper()
	pod := fixture.Pod(name).GPUs(gpus).CPU(cores).Obj()
	for _, change := range changes {
		change(pod)
	}
	labels := map[string]string{"app": name}
	e.on(node, func() {
		_, err := client.AppsV1().Deployments(e.namespace).Create(e.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			e.Fatal(err)
		}
		e.running(name)
	})
}

// beside keeps a pod on the node of another app's.
func beside(app string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, TopologyKey: corev1.LabelHostname,
			}},
		}}
	}
}

// fill has a pod run on a node that nothing would start again.
func (e *env) fill(name, node string, gpus, cores int64, changes ...func(*corev1.Pod)) {
	e.Helper()
	e.on(node, func() {
		e.create(name, gpus, cores, changes...)
		e.wait(e.Context(), name+" to run", func(ctx context.Context) (bool, error) {
			pod, err := client.CoreV1().Pods(e.namespace).Get(ctx, name, metav1.GetOptions{})
			return err == nil && pod.Status.Phase == corev1.PodRunning, err
		})
	})
}

func label(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels[key] = value }
}

// create creates a pod of no controller.
func (e *env) create(name string, gpus, cores int64, changes ...func(*corev1.Pod)) {
	e.Helper()
	pod := fixture.Pod(name).GPUs(gpus).CPU(cores).Obj()
	pod.Namespace, pod.Labels = e.namespace, map[string]string{"app": name}
	for _, change := range changes {
		change(pod)
	}
	if _, err := client.CoreV1().Pods(e.namespace).Create(e.Context(), pod, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
}

// on does something while no other node takes pods.
func (e *env) on(node string, do func()) {
	e.Helper()
	for _, other := range []string{first, second, third} {
		if other != node {
			e.cordon(other, true)
			defer e.cordon(other, false)
		}
	}
	do()
}

func (e *env) cordon(node string, closed bool) {
	e.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, closed)
	if _, err := client.CoreV1().Nodes().Patch(e.Context(), node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		e.Fatal(err)
	}
	// A controller sets the taint of a closed node and takes it away, a moment later.
	e.wait(e.Context(), node+" to be tainted as it should be", func(ctx context.Context) (bool, error) {
		read, err := client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		return err == nil && closed == slices.ContainsFunc(read.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Key == corev1.TaintNodeUnschedulable
		}), err
	})
}

// pod returns the pod of an app that is not about to end, nil if there is none.
func (e *env) pod(ctx context.Context, app string) (*corev1.Pod, error) {
	list, err := client.CoreV1().Pods(e.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			return &list.Items[i], nil
		}
	}
	return nil, nil
}

// running waits until the pod of an app runs, and returns it.
func (e *env) running(app string) *corev1.Pod {
	e.Helper()
	var found *corev1.Pod
	e.wait(e.Context(), app+" to run", func(ctx context.Context) (done bool, err error) {
		found, err = e.pod(ctx, app)
		return found != nil && found.Status.Phase == corev1.PodRunning, err
	})
	return found
}

// waits creates a pod of 8 GPUs for which there is no room.
func (e *env) waits(cores int64, changes ...func(*corev1.Pod)) *corev1.Pod {
	e.Helper()
	const name = "eight"
	e.create(name, 8, cores, changes...)
	var found *corev1.Pod
	e.wait(e.Context(), "the scheduler to look for room", func(ctx context.Context) (done bool, err error) {
		found, err = e.pod(ctx, name)
		return found != nil && len(found.Status.Conditions) > 0 && found.Status.Conditions[0].Reason == corev1.PodReasonUnschedulable, err
	})
	return found
}

// waitsForOne has a pod of 8 GPUs wait for one on the first node to go to the second, where a GPU is free.
func (e *env) waitsForOne() *corev1.Pod {
	e.Helper()
	e.deploy("one", first, 1, 1)
	e.fill("most-of-second", second, 7, 1)
	e.fill("rest-of-third", third, 8, 1)
	return e.waits(1)
}

// toleratesAll has a pod go to nodes that are closed.
func toleratesAll(pod *corev1.Pod) {
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

// taint gives a node these taints and no others.
func (e *env) taint(node string, taints ...corev1.Taint) {
	e.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"taints": taints}})
	if err != nil {
		e.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().Patch(e.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		e.Fatal(err)
	}
}

// closed are the nodes that are closed for moves.
func (e *env) closed() []string {
	e.Helper()
	nodes, err := client.CoreV1().Nodes().List(e.Context(), metav1.ListOptions{})
	if err != nil {
		e.Fatal(err)
	}
	closed := []string{}
	for i := range nodes.Items {
		for _, taint := range nodes.Items[i].Spec.Taints {
			if taint.Key == names.TaintMoving {
				closed = append(closed, nodes.Items[i].Name)
			}
		}
	}
	return closed
}

// proposal is one made by hand, that may be wrong.
func proposal(waiting *corev1.Pod, node string, moves ...defrag.Move) defrag.Proposal {
	return defrag.Proposal{Ref: refOf(waiting), Node: node, Moves: moves}
}

func move(pod *corev1.Pod, to string) defrag.Move {
	return defrag.Move{Ref: refOf(pod), From: pod.Spec.NodeName, To: to}
}

func refOf(pod *corev1.Pod) defrag.Ref {
	return defrag.Ref{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID}
}

// plan makes an advice for the cluster as it is.
func (e *env) plan() defrag.Advice {
	e.Helper()
	facts, err := defrag.Read(e.Context(), client, time.Now())
	if err != nil {
		e.Fatal(err)
	}
	return defrag.Plan(facts, defrag.Limits{Moves: 4})
}

// carry makes the moves of a proposal, and returns what was reported.
func (e *env) carry(ctx context.Context, p defrag.Proposal, patience time.Duration, report func(string)) error {
	carrier := defrag.Carrier{Client: client, StepTimeout: patience, Now: time.Now, Report: func(text phrase.Text) {
		e.Log(text)
		if report != nil {
			report(text.String())
		}
	}}
	err := carrier.CarryOut(ctx, p)
	if closed := e.closed(); len(closed) > 0 {
		e.Errorf("the nodes %v are still closed", closed)
	}
	return err
}
