package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/drain"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/timelimit"
	"g8s.host/gpu-scheduler/test/clustertest"
)

func (e *env) drainer(force bool) *drain.Drainer {
	return &drain.Drainer{Client: cluster.Client, Force: force, Report: func(text phrase.Text) { e.Log(text) }}
}

func (e *env) node(name string) *corev1.Node {
	e.Helper()
	node, err := cluster.Client.CoreV1().Nodes().Get(e.Context(), name, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return node
}

// TestADrainedNodeIsEmptyAndItsJobsRunElsewhere: a gang moves as a whole, no retry is used, and the node comes back.
func TestADrainedNodeIsEmptyAndItsJobsRunElsewhere(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ring := e.Start(clustertest.Job{Name: "ring", GPUs: 8, Nodes: 2})
	lone := e.Start(clustertest.Job{Name: "lone", GPUs: 8})[0]
	node := ring[0].Spec.NodeName
	if err := e.drainer(false).Drain(t.Context(), node, clustertest.Patience); err != nil {
		t.Fatal(err)
	}
	left := time.Now()
	for _, member := range ring {
		if fresh := e.AgainSoon("ring", member, left); fresh.Spec.NodeName == node {
			t.Errorf("member %s is on the node that was drained", fresh.Name)
		}
	}
	if !e.node(node).Spec.Unschedulable {
		t.Error("the node is not cordoned")
	}
	if status := e.Status("ring"); ptr.Deref(status.FailedIndexes, "") != "" || len(status.Conditions) > 0 {
		t.Errorf("the gang has paid for it: %+v", status)
	}
	if seen := e.History.Of(lone.UID); !seen.Ended.IsZero() {
		t.Error("a job of another node was moved, too")
	}
	// Drained again, there is nothing to do.
	if plan, err := e.drainer(false).Plan(t.Context(), node); err != nil || len(plan.Units) > 0 {
		t.Errorf("the plan for an empty node is %+v, %v", plan, err)
	}
	if got, err := e.drainer(false).RecoverNode(t.Context(), node, true); err != nil || !got.Uncordoned || !e.node(node).Spec.Unschedulable {
		t.Errorf("a dry run gave %+v, %v", got, err)
	}
	if got, err := e.drainer(false).RecoverNode(t.Context(), node, false); err != nil || !got.Uncordoned || e.node(node).Spec.Unschedulable {
		t.Errorf("the node was given back as %+v, %v", got, err)
	}
	if got, err := e.drainer(false).RecoverNode(t.Context(), node, false); err != nil || got.HasChanges() {
		t.Errorf("given back twice: %+v, %v", got, err)
	}
}

// TestADrainAsksAPerson about a pod that is not to be moved, and does nothing.
func TestADrainAsksAPerson(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	pod := e.Start(clustertest.Job{Name: "sft", GPUs: 8, Pod: map[string]string{names.AnnotationNoMigration: names.True}})[0]
	var held *drain.HeldError
	if err := e.drainer(false).Drain(t.Context(), pod.Spec.NodeName, clustertest.Patience); !errors.As(err, &held) {
		t.Fatalf("got %v, want that a person decides", err)
	}
	if e.node(pod.Spec.NodeName).Spec.Unschedulable {
		t.Error("the node was cordoned, though nothing was to be done")
	}
	if err := e.drainer(true).Drain(t.Context(), pod.Spec.NodeName, clustertest.Patience); err != nil {
		t.Fatal(err)
	}
	e.AgainSoon("sft", pod, time.Now())
}

// TestADrainThatIsStopped, by its time or by a person, says how far it came, and goes on when it is asked again.
func TestADrainThatIsStopped(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	pod := e.Start(clustertest.Job{Name: "sft", GPUs: 8})[0]
	node := pod.Spec.NodeName
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &intstr.IntOrString{IntVal: 1}, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{names.LabelJob: "sft"}}},
	}
	if _, err := cluster.Client.PolicyV1().PodDisruptionBudgets(e.Namespace).Create(t.Context(), budget, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.Eventually("the budget to be counted", func(ctx context.Context) (bool, error) {
		read, err := cluster.Client.PolicyV1().PodDisruptionBudgets(e.Namespace).Get(ctx, "none", metav1.GetOptions{})
		return err == nil && read.Status.CurrentHealthy == 1, err
	})
	var stopped *drain.StoppedError
	var late *timelimit.Error
	err := e.drainer(false).Drain(t.Context(), node, 3*time.Second)
	if !errors.As(err, &stopped) || !errors.As(err, &late) || len(stopped.Left) != 1 || !strings.Contains(stopped.ProgressText().String(), "sft") {
		t.Fatalf("got %v, want that time is over, and what is left", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	drainer := e.drainer(false)
	drainer.Report = func(text phrase.Text) { t.Log(text); cancel() } // of the pod that has to wait
	if err := drainer.Drain(ctx, node, clustertest.Patience); !errors.As(err, &stopped) || !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if seen := e.History.Of(pod.UID); !seen.Ended.IsZero() || !e.node(node).Spec.Unschedulable {
		t.Error("a pod left that its budget keeps, or the node is open")
	}
	if err := cluster.Client.PolicyV1().PodDisruptionBudgets(e.Namespace).Delete(t.Context(), "none", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := e.drainer(false).Drain(t.Context(), node, clustertest.Patience); err != nil {
		t.Fatal(err)
	}
	e.AgainSoon("sft", pod, time.Now())
}
