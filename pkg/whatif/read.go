package whatif

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
)

// Where the scheduler's policy is, see manifests/scheduler.
const (
	policyConfigMap = names.SchedulerName + "-policy"
	policyKey       = "score-policy.yaml"
)

// Where returns what would become of objects if they were created now, as gpuctl renders them. The caller must be able
// to list nodes, and the pods of all namespaces: with less, the simulation would put jobs where others are. Without the
// right to read the scheduler's policy, the one that is shipped decides.
func Where(ctx context.Context, reader kubernetes.Interface, objects []client.Object, now time.Time) (Answer, error) {
	simulator, err := Find()
	if err != nil {
		return Answer{}, err
	}
	facts, err := diagnosis.NewReader(reader).Around(ctx, now)
	if err != nil {
		return Answer{}, err
	}
	for _, needed := range []string{diagnosis.UnreadNodes, diagnosis.UnreadPods} {
		if slices.Contains(facts.Unread, needed) {
			return Answer{}, missingRight(needed)
		}
	}
	policy, of, err := policyOf(ctx, reader)
	if err != nil {
		return Answer{}, err
	}
	question := &Question{Nodes: facts.Nodes, Pods: facts.Holders, Policy: policy}
	for _, object := range objects {
		raw, err := json.Marshal(object)
		if err != nil {
			return Answer{}, fmt.Errorf("writing %s: %w", object.GetName(), err)
		}
		question.Workload = append(question.Workload, raw)
	}
	outcome, err := Ask(ctx, simulator, question)
	if err != nil {
		return Answer{}, err
	}
	return NewAnswer(facts, outcome, of), nil
}

// missingRight says what a caller may not list.
func missingRight(what string) error {
	resource := "pods"
	advice := "who else holds GPUs cannot be seen; ask the administrators for the right to list pods of all namespaces, " +
		"such as ClusterRole g8s:reader bound in the whole cluster"
	if what == diagnosis.UnreadNodes {
		resource, advice = "nodes", "ask the administrators for ClusterRole g8s:fleet-reader"
	}
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", fmt.Errorf("you may not list %s: %s", what, advice))
}

// policyOf returns the scoring policy of the cluster, or "" for the one that is shipped, and which it is.
func policyOf(ctx context.Context, reader kubernetes.Interface) (policy, of string, err error) {
	got, err := reader.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, policyConfigMap, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsNotFound(err):
		return "", PolicyShipped, nil
	case err != nil:
		return "", "", fmt.Errorf("reading the scheduler's policy: %w", err)
	case got.Data[policyKey] == "":
		return "", PolicyShipped, nil
	}
	return got.Data[policyKey], PolicyOfCluster, nil
}
