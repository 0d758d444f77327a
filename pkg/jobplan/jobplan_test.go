package jobplan

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

var now = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func meta(annotations map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		ResourceVersion: "7", Labels: map[string]string{names.LabelJob: "sft"}, Annotations: annotations,
	}
}

func template(gpus string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name:      "main",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{names.ResourceGPU: resource.MustParse(gpus)}},
	}}}}
}

func job(suspend bool, finished batchv1.JobConditionType, annotations map[string]string) *batchv1.Job {
	out := &batchv1.Job{ObjectMeta: meta(annotations), Spec: batchv1.JobSpec{
		Suspend: ptr.To(suspend), Parallelism: ptr.To(int32(2)), Template: template("8"),
	}}
	if finished != "" {
		out.Status.Conditions = []batchv1.JobCondition{{Type: finished, Status: corev1.ConditionTrue}}
	}
	return out
}

func deployment(replicas int32, annotations map[string]string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: meta(annotations), Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To(replicas), Template: template("1"),
	}}
}

func TestSteps(t *testing.T) {
	pause := func(top client.Object) (Step, error) { return Pause(top, now) }
	cancel := func(top client.Object) (Step, error) { return Cancel(top, now) }
	retry := func(top client.Object) (Step, error) {
		step, again, err := Retry(top)
		if again {
			return Step{Patch: []byte(`"again"`), GPUs: step.GPUs}, err
		}
		return step, err
	}
	cancelled := map[string]string{names.AnnotationCancelledAt: "x", names.AnnotationReplicas: "3"}
	tests := map[string]struct {
		plan func(client.Object) (Step, error)
		top  client.Object
		// want is the patch without its resourceVersion, "" for none.
		want  string
		gpus  int64
		state State
	}{
		"a Job is paused by suspending it": {
			pause, job(false, "", nil),
			`{"metadata":{"annotations":{"g8s.host/paused-at":"2026-11-01T12:00:00Z"}},"spec":{"suspend":true}}`, 16, "",
		},
		"a Job that is paused by nobody says why": {
			func(top client.Object) (Step, error) { return PauseBecause(top, now, "it did nothing") }, job(false, "", nil),
			`{"metadata":{"annotations":{"g8s.host/paused-at":"2026-11-01T12:00:00Z","g8s.host/paused-because":"it did nothing"}},"spec":{"suspend":true}}`, 16, "",
		},
		"a paused Job is left alone": {pause, job(true, "", nil), "", 16, ""},
		"a Deployment is paused at no replicas, and remembers how many it had": {
			pause, deployment(3, nil),
			`{"metadata":{"annotations":{"g8s.host/paused-at":"2026-11-01T12:00:00Z","g8s.host/replicas":"3"}},"spec":{"replicas":0}}`, 3, "",
		},
		"what has finished cannot be paused":   {pause, job(false, batchv1.JobComplete, nil), "", 0, StateSucceeded},
		"what was cancelled cannot be resumed": {Resume, deployment(0, cancelled), "", 0, StateCancelled},
		"a Job goes on": {
			Resume, job(true, "", nil),
			`{"metadata":{"annotations":{"g8s.host/cancelled-at":null,"g8s.host/paused-at":null,"g8s.host/paused-because":null}},"spec":{"suspend":false}}`, 16, "",
		},
		"a Deployment gets its replicas back": {
			Resume, deployment(0, map[string]string{names.AnnotationReplicas: "3"}),
			`{"metadata":{"annotations":{"g8s.host/cancelled-at":null,"g8s.host/paused-at":null,"g8s.host/paused-because":null,"g8s.host/replicas":null}},"spec":{"replicas":3}}`, 3, "",
		},
		"a Deployment that someone else scaled to zero gets one replica": {
			Resume, deployment(0, nil),
			`{"metadata":{"annotations":{"g8s.host/cancelled-at":null,"g8s.host/paused-at":null,"g8s.host/paused-because":null,"g8s.host/replicas":null}},"spec":{"replicas":1}}`, 1, "",
		},
		"what runs needs no resuming": {Resume, job(false, "", nil), "", 16, ""},
		"a Job is cancelled by a deadline of no time, which ends a paused one too": {
			cancel, job(true, "", nil),
			`{"metadata":{"annotations":{"g8s.host/cancelled-at":"2026-11-01T12:00:00Z"}},"spec":{"activeDeadlineSeconds":0,"suspend":false}}`, 0, "",
		},
		"a paused Deployment keeps the number that it remembers when it is cancelled": {
			cancel, deployment(0, map[string]string{names.AnnotationReplicas: "3"}),
			`{"metadata":{"annotations":{"g8s.host/cancelled-at":"2026-11-01T12:00:00Z"}},"spec":{"replicas":0}}`, 0, "",
		},
		"what was cancelled is left alone":               {cancel, job(false, batchv1.JobFailed, cancelled), "", 16, ""},
		"what has failed cannot be cancelled":            {cancel, job(false, batchv1.JobFailed, nil), "", 0, StateFailed},
		"a failed Job is made again":                     {retry, job(false, batchv1.JobFailed, nil), `"again"`, 16, ""},
		"a succeeded Job is made again":                  {retry, job(false, batchv1.JobComplete, nil), `"again"`, 16, ""},
		"what runs is not started over":                  {retry, job(false, "", nil), "", 0, StateActive},
		"what is paused is resumed and not started over": {retry, job(true, "", nil), "", 0, StatePaused},
		"a cancelled Deployment gets its replicas back": {
			retry, deployment(0, cancelled),
			`{"metadata":{"annotations":{"g8s.host/cancelled-at":null,"g8s.host/paused-at":null,"g8s.host/paused-because":null,"g8s.host/replicas":null}},"spec":{"replicas":3}}`, 3, "",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			step, err := tc.plan(tc.top)
			var refused *StateError
			if errors.As(err, &refused); (refused != nil) != (tc.state != "") || refused != nil && refused.State != tc.state {
				t.Fatalf("error is %v, want one of state %q", err, tc.state)
			}
			if diff := cmp.Diff(tc.want, withoutVersion(t, step.Patch)); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			if step.GPUs != tc.gpus {
				t.Errorf("%d GPUs, want %d", step.GPUs, tc.gpus)
			}
		})
	}
}

// withoutVersion checks that a patch fails on another version than the one that was read, and leaves that out.
func withoutVersion(t *testing.T, patch []byte) string {
	t.Helper()
	var tree map[string]any
	if json.Unmarshal(patch, &tree) != nil {
		return string(patch)
	}
	metadata := tree["metadata"].(map[string]any)
	if metadata["resourceVersion"] != "7" {
		t.Errorf("patch %s does not demand the version that was read", patch)
	}
	delete(metadata, "resourceVersion")
	out, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
