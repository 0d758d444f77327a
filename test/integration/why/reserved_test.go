package why

import (
	"context"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/fixture"
)

func reservations(t *testing.T) dynamic.ResourceInterface {
	t.Helper()
	api, err := dynamic.NewForConfig(cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return api.Resource(names.SchemeGroupVersion.WithResource("gpureservations"))
}

// reservation is the object of a spec.
func reservation(t *testing.T, name string, spec names.GPUReservationSpec) *unstructured.Unstructured {
	t.Helper()
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&names.GPUReservation{
		TypeMeta:   metav1.TypeMeta{APIVersion: names.SchemeGroupVersion.String(), Kind: "GPUReservation"},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: tree}
}

// reserve keeps nodes until the test ends.
func (e *env) reserve(spec names.GPUReservationSpec) {
	e.Helper()
	api := reservations(e.T)
	if _, err := api.Create(e.Context(), reservation(e.T, e.namespace, spec), metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() {
		if err := api.Delete(context.Background(), e.namespace, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			e.Error(err)
		}
	})
}

// known waits until the scheduler knows that a node is kept from this namespace: until then it places a pod there, which is tried
// again.
func (e *env) known(node string) {
	e.Helper()
	probe := e.podNamed("probe").Obj()
	probe.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
		}}},
	}}}
	e.eventually("the scheduler to know the reservation", func(context.Context) bool {
		e.createPod(probe)
		defer e.remove("probe")
		verdict := ""
		e.eventually("the probe to be tried", func(ctx context.Context) bool {
			pod, err := client.CoreV1().Pods(e.namespace).Get(ctx, "probe", metav1.GetOptions{})
			if err != nil {
				e.Fatal(err)
			}
			for _, condition := range pod.Status.Conditions {
				verdict = condition.Message
			}
			return pod.Spec.NodeName != "" || verdict != ""
		})
		return strings.Contains(verdict, string(reason.Reserved.Text))
	})
}

// podNamed is a pod of no job, of one GPU.
func (e *env) podNamed(name string) *fixture.PodBuilder {
	return fixture.Pod(name).GPUs(1).Pool(e.pool)
}

// boundPod waits until a pod of no job is on a node, and returns which.
func (e *env) boundPod(name string) (node string) {
	e.Helper()
	e.eventually("pod "+name+" to be bound", func(ctx context.Context) bool {
		pod, err := client.CoreV1().Pods(e.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			e.Fatal(err)
		}
		node = pod.Spec.NodeName
		return node != ""
	})
	return node
}

// reschedule gives the reservation of the test other times.
func (e *env) reschedule(from, to time.Time) {
	e.Helper()
	api := reservations(e.T)
	there, err := api.Get(e.Context(), e.namespace, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	for field, at := range map[string]time.Time{"from": from, "to": to} {
		if err := unstructured.SetNestedField(there.Object, at.UTC().Format(time.RFC3339), "spec", field); err != nil {
			e.Fatal(err)
		}
	}
	if _, err := api.Update(e.Context(), there, metav1.UpdateOptions{}); err != nil {
		e.Fatal(err)
	}
}

func limitedTo(limit time.Duration) func(*batchv1.JobSpec) {
	return func(spec *batchv1.JobSpec) { spec.Template.Spec.ActiveDeadlineSeconds = ptr.To(int64(limit.Seconds())) }
}

// TestAMaintenanceWindow comes, is waited for by a job without a time limit, which starts by itself when it ends, and lets in whoever
// ends before.
func TestAMaintenanceWindow(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.createNodes(e.node("a").GPUs(8, a100).Obj())
	now := time.Now().Truncate(time.Second)
	e.reserve(names.GPUReservationSpec{
		Nodes: e.nodes, From: metav1.NewTime(now.Add(3 * time.Hour)), To: metav1.NewTime(now.Add(5 * time.Hour)), Reason: "new firmware",
	})
	e.known(e.nodes[0])
	e.submit(e.pod(8).Obj())
	e.judged()
	e.want(reason.ReservedNode, "1 node kept from", "by GPUReservation "+e.namespace, "for maintenance (new firmware)",
		"without a time limit the job could still run then", "set resources.time-limit to at most 2h", "this reservation ends at")

	table, err := cluster.RunKubectl(t.Context(), "get", "gpureservations", e.namespace)
	if from := now.Add(3 * time.Hour).UTC().Format(time.RFC3339); err != nil || !strings.Contains(string(table), from) {
		t.Errorf("kubectl says %v and does not say that it is from %s:\n%s", err, from, table)
	}

	short := e.podNamed("short").Obj()
	short.Spec.ActiveDeadlineSeconds = ptr.To[int64](2 * 60 * 60)
	e.createPod(short)
	if node := e.boundPod("short"); node != e.nodes[0] {
		t.Errorf("a pod that ends before is on %q", node)
	}
	e.remove("short")

	e.reschedule(now.Add(-time.Minute), time.Now().Add(5*time.Second))
	if node := e.bound().Spec.NodeName; node != e.nodes[0] {
		t.Errorf("the job is on %q when it is over", node)
	}
}

// TestAWindowForSome lets their pods in and nobody else's, and everybody when it is deleted.
func TestAWindowForSome(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.createNodes(e.node("a").GPUs(8, a100).Obj())
	now := time.Now().Truncate(time.Second)
	e.reserve(names.GPUReservationSpec{
		Pool: e.pool, From: metav1.NewTime(now.Add(-time.Hour)), To: metav1.NewTime(now.Add(time.Hour)), Namespaces: []string{e.namespace},
	})
	other := newEnv(t)
	other.pool = e.pool
	other.known(e.nodes[0])
	other.create(e.pod(4).Obj(), limitedTo(time.Minute))
	other.judged()
	other.want(reason.ReservedNode, "for namespaces "+e.namespace)
	e.submit(e.pod(4).Obj())
	if node := e.bound().Spec.NodeName; node != e.nodes[0] {
		t.Errorf("a job of those it is for is on %q", node)
	}
	if err := reservations(t).Delete(t.Context(), e.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if node := other.bound().Spec.NodeName; node != e.nodes[0] {
		t.Errorf("a job of others is on %q when it is deleted", node)
	}
}

// TestAGangStaysOffKeptNodes, and starts when they are kept no longer.
func TestAGangStaysOffKeptNodes(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.createNodes(e.node("a").GPUs(8, a100).Obj(), e.node("b").GPUs(8, a100).Obj())
	now := time.Now().Truncate(time.Second)
	e.reserve(names.GPUReservationSpec{
		Nodes: e.nodes[:1], From: metav1.NewTime(now.Add(time.Hour)), To: metav1.NewTime(now.Add(2 * time.Hour)),
	})
	e.known(e.nodes[0])
	e.gpuctl("create", "-f", e.train(2, 8, ""))
	e.judged()
	for _, pod := range e.pods(t.Context()) {
		if pod.Spec.NodeName != "" {
			t.Errorf("member %s is on %s", pod.Name, pod.Spec.NodeName)
		}
	}
	e.reschedule(now.Add(-time.Minute), time.Now().Add(5*time.Second))
	e.eventually("both members to have places", func(ctx context.Context) bool {
		placed := 0
		for _, pod := range e.pods(ctx) {
			if pod.Spec.NodeName != "" {
				placed++
			}
		}
		return placed == 2
	})
}

// TestReservationsThatMakeNoSense are refused by the API server, which says why.
func TestReservationsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	from, to := metav1.NewTime(time.Now()), metav1.NewTime(time.Now().Add(time.Hour))
	tests := map[string]struct {
		spec names.GPUReservationSpec
		want string
	}{
		"it ends before it begins":     {names.GPUReservationSpec{Pool: "p", From: to, To: from}, "from must be before to"},
		"it keeps nothing":             {names.GPUReservationSpec{From: from, To: to}, "name either a pool, for all its nodes, or nodes"},
		"a pool and nodes":             {names.GPUReservationSpec{Pool: "p", Nodes: []string{"n"}, From: from, To: to}, "name either a pool, for all its nodes, or nodes"},
		"no name of a node":            {names.GPUReservationSpec{Nodes: []string{"No Name"}, From: from, To: to}, "spec.nodes[0]"},
		"no name of a namespace":       {names.GPUReservationSpec{Pool: "p", From: from, To: to, Namespaces: []string{"a.b"}}, "spec.namespaces[0]"},
		"the same node once and again": {names.GPUReservationSpec{Nodes: []string{"n", "n"}, From: from, To: to}, "Duplicate value"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := reservations(t).Create(t.Context(), reservation(t, "nonsense", tc.spec), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if !apierrors.IsInvalid(err) {
				t.Fatalf("the API server says %v, want that it is invalid", err)
			}
			if got := err.Error(); !strings.Contains(got, tc.want) {
				t.Errorf("it says %s, want %q", got, tc.want)
			}
		})
	}
}
