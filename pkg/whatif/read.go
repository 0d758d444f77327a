package whatif

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// Where the scheduler's policy is, see manifests/scheduler.
const (
	policyConfigMap = names.SchedulerName + "-policy"
	policyKey       = "score-policy.yaml"
)

// Simulate predicts the placement of jobs if they were created now; each job consists of the objects that gpuctl renders. The API server is asked
// whether it would admit them and their pods, as far as the caller may create such objects; refused jobs are not placed. The caller must be able to
// list nodes, and the pods of all namespaces: otherwise the simulation would place jobs on GPUs that others hold. Without the right to read the
// scheduler's policy, the shipped policy is used.
func Simulate(ctx context.Context, reader kubernetes.Interface, writer *submit.Client, jobs [][]client.Object, now time.Time) (Answer, error) {
	simulator, err := FindSimulator()
	if err != nil {
		return Answer{}, err
	}
	cluster, err := snapshot.Read(ctx, reader, diagnosis.ClusterQueries(now)...)
	if err != nil {
		return Answer{}, err
	}
	for _, needed := range []snapshot.Part{snapshot.PartNodes, snapshot.PartAllPods} {
		if !cluster.HasPart(needed) {
			return Answer{}, missingRight(needed)
		}
	}
	policy, of, err := readPolicy(ctx, reader)
	if err != nil {
		return Answer{}, err
	}
	verdicts, err := checkAdmission(ctx, writer, jobs)
	if err != nil {
		return Answer{}, err
	}
	question := &Question{
		Nodes: cluster.Nodes, Pods: podsOnNodes(cluster.Nodes, cluster.Pods), Policy: policy, Reservations: cluster.GPUReservations, Now: cluster.Now,
		Quotas: cluster.GPUQuotas,
	}
	if question.Workload, err = admittedWorkload(jobs, verdicts); err != nil {
		return Answer{}, err
	}
	outcome := &Outcome{}
	if len(question.Workload) > 0 {
		if outcome, err = RunSimulator(ctx, simulator, question); err != nil {
			return Answer{}, err
		}
	}
	return NewAnswer(cluster, outcome, of).addRefused(jobs, verdicts), nil
}

// checkAdmission asks for each job whether the API server would admit it, together with the admitted ones before it.
func checkAdmission(ctx context.Context, writer *submit.Client, jobs [][]client.Object) ([]submit.AdmissionResult, error) {
	verdicts := make([]submit.AdmissionResult, len(jobs))
	var before []client.Object
	for i, objects := range jobs {
		var err error
		if verdicts[i], err = writer.CheckAdmission(ctx, objects, before...); err != nil {
			return nil, err
		}
		if verdicts[i].Refused == nil {
			before = append(before, objects[0])
		}
	}
	return verdicts, nil
}

// admittedWorkload returns the objects of the jobs that the API server would admit.
func admittedWorkload(jobs [][]client.Object, verdicts []submit.AdmissionResult) ([]json.RawMessage, error) {
	var out []json.RawMessage
	for i, objects := range jobs {
		if verdicts[i].Refused != nil {
			continue
		}
		for _, object := range objects {
			raw, err := json.Marshal(object)
			if err != nil {
				return nil, phrase.Errorf("writing %s: %w", object.GetName(), err)
			}
			out = append(out, raw)
		}
	}
	return out, nil
}

// podsOnNodes returns the pods whose node exists: the pods of a deleted node remain for a while, but hold nothing.
func podsOnNodes(nodes []corev1.Node, pods []corev1.Pod) []corev1.Pod {
	there := map[string]bool{}
	for i := range nodes {
		there[nodes[i].Name] = true
	}
	return slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool { return !there[pod.Spec.NodeName] })
}

// missingRight returns an error that says what the caller may not list.
func missingRight(what snapshot.Part) error {
	resource := "pods"
	advice := "who else holds GPUs cannot be seen; ask the administrators for the right to list pods of all namespaces, " +
		"such as ClusterRole g8s:reader bound in the whole cluster"
	if what == snapshot.PartNodes {
		resource, advice = "nodes", "ask the administrators for ClusterRole g8s:fleet-reader"
	}
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", phrase.Errorf("you may not list %s: %s", what, advice))
}

// readPolicy returns the scoring policy of the cluster, or "" for the shipped one, and which of the two it is.
func readPolicy(ctx context.Context, reader kubernetes.Interface) (policy, of string, err error) {
	got, err := reader.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, policyConfigMap, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsNotFound(err):
		return "", PolicyShipped, nil
	case err != nil:
		return "", "", phrase.Errorf("reading the scheduler's policy: %w", err)
	case got.Data[policyKey] == "":
		return "", PolicyShipped, nil
	}
	return got.Data[policyKey], PolicyOfCluster, nil
}
