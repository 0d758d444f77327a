package submit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/workload"
)

var sft = Ref{Namespace: "lab", Name: "sft"}

// madeFrom is a top object of job sft that says it was made from a YAML, whoever wrote that.
func madeFrom(kind workload.Kind, source string) client.Object {
	meta := partOf("sft", "sft")
	meta.Labels[names.LabelJobType] = string(kind)
	meta.Annotations = map[string]string{names.AnnotationSubmitted: source}
	if kind == workload.KindTraining {
		meta.Annotations[names.AnnotationPausedAt] = "2026-11-01T12:00:00Z"
		job := &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Suspend: ptr.To(true)}}
		return withKind(job, batchv1.SchemeGroupVersion.WithKind("Job"))
	}
	meta.Name = "inference-sft"
	return withKind(&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](1)}}, appsv1.SchemeGroupVersion.WithKind("Deployment"))
}

// TestTheYAMLOfAnotherJobIsNotFollowed: who may patch annotations in one namespace has nobody write to another one, or another job.
func TestTheYAMLOfAnotherJobIsNotFollowed(t *testing.T) {
	const yaml = `kind: %s
job: {name: %s, namespace: %s}
environment: {image: busybox, command: [sleep, "60"]}
resources: {cpu: 1, memory: 1Gi}
`
	sources := map[string]struct {
		kind            workload.Kind
		name, namespace string
	}{
		"another namespace": {"", "sft", "kube-system"},
		"another name":      {"", "coredns", "lab"},
		"another kind":      {workload.KindNotebook, "sft", "lab"},
	}
	changes := map[string]struct {
		kind   workload.Kind
		change func(context.Context, *Client) error
	}{
		"retry": {workload.KindTraining, func(ctx context.Context, c *Client) error {
			if _, err := c.Cancel(ctx, sft, StepOptions{Now: time.Now()}); err != nil {
				return err
			}
			_, err := c.Retry(ctx, sft, EditOptions{})
			return err
		}},
		"set priority": {workload.KindTraining, func(ctx context.Context, c *Client) error {
			_, err := c.SetPriority(ctx, sft, workload.PriorityHigh, EditOptions{})
			return err
		}},
		"edit": {workload.KindTraining, func(ctx context.Context, c *Client) error {
			_, err := c.Rewrite(ctx, sft, func(doc workload.Document) (string, error) { return doc.Source + "# more\n", nil }, EditOptions{})
			return err
		}},
		"scale": {workload.KindInference, func(ctx context.Context, c *Client) error {
			_, err := c.Scale(ctx, sft, 3, EditOptions{})
			return err
		}},
	}
	for what, source := range sources {
		for how, tc := range changes {
			t.Run(how+" with "+what, func(t *testing.T) {
				kind := source.kind
				if kind == "" {
					kind = tc.kind
				}
				c := cluster(nil, madeFrom(tc.kind, fmt.Sprintf(yaml, kind, source.name, source.namespace)))
				if err := tc.change(t.Context(), c); !errors.As(err, new(*OtherJobsSourceError)) {
					t.Errorf("it says %v, want that the YAML is of another job", err)
				}
				var jobs batchv1.JobList
				var services corev1.ServiceList
				for _, list := range []client.ObjectList{&jobs, &services} {
					if err := c.api.List(t.Context(), list); err != nil {
						t.Fatal(err)
					}
				}
				if want := map[bool]int{true: 1}[tc.kind == workload.KindTraining]; len(jobs.Items) != want || len(services.Items) != 0 {
					t.Errorf("there are %d Jobs and %d Services, want %d and none", len(jobs.Items), len(services.Items), want)
				}
			})
		}
	}
}
