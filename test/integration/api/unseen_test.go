package api

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/server"
)

// breakOff leaves a member's job as it is when its making again is broken off: its Job is gone, and a Lease has it.
func (a *api) breakOff(name string, change func(*batchv1.Job)) {
	a.Helper()
	a.want(http.StatusCreated, request{method: http.MethodPost, path: jobs, user: member, body: yamlOf(training(name))})
	job, err := client.BatchV1().Jobs(team).Get(a.Context(), name, metav1.GetOptions{})
	if err != nil {
		a.Fatal(err)
	}
	a.remove(name)
	old := job.UID
	job.ResourceVersion, job.UID, job.ManagedFields, job.Spec.Selector = "", "", nil, nil
	for _, labels := range []map[string]string{job.Labels, job.Spec.Template.Labels} {
		for _, key := range []string{batchv1.ControllerUidLabel, batchv1.JobNameLabel, "controller-uid", "job-name"} {
			delete(labels, key)
		}
	}
	change(job)
	text, err := json.Marshal(map[string]any{"job": job, "old": old})
	if err != nil {
		a.Fatal(err)
	}
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(text); err != nil {
		a.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		a.Fatal(err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: "gpuctl-again-" + name,
		Labels: map[string]string{
			names.LabelManagedBy: names.ManagedByGpuctl, names.LabelJob: name, names.LabelJobType: "training",
		},
		Annotations: map[string]string{names.AnnotationReplacement: base64.StdEncoding.EncodeToString(packed.Bytes())},
	}}
	if _, err := client.CoordinationV1().Leases(team).Create(a.Context(), lease, metav1.CreateOptions{}); err != nil {
		a.Fatal(err)
	}
}

// TestResumeMakesNoJobUnseen: the first answer has the Job and its digest, by which the second request makes exactly it.
func TestResumeMakesNoJobUnseen(t *testing.T) {
	a := start(t, server.Options{})
	a.breakOff("unseen", func(*batchv1.Job) {})
	resume := jobs + "/unseen/resume?namespace=team"
	for _, query := range []string{"", "&dryRun=true", "&digest=sha256:00"} {
		got := a.want(http.StatusConflict, request{method: http.MethodPost, path: resume + query, user: admin})
		a.same("the code", "UnseenJob", got["code"])
		unseen := got["unseen"].(map[string]any)
		a.same("the kind of what would be made", "Job", unseen["job"].(map[string]any)["kind"])
		a.same("the Lease", "gpuctl-again-unseen", unseen["lease"])
	}
	unseen := a.want(http.StatusConflict, request{method: http.MethodPost, path: resume, user: admin})["unseen"].(map[string]any)
	a.wantNoJob("unseen")
	digest := unseen["digest"].(string)
	a.want(http.StatusPreconditionFailed, request{method: http.MethodPost, path: resume + "&digest=" + digest, user: admin, header: map[string]string{"If-Match": `"any"`}})
	a.want(http.StatusOK, request{method: http.MethodPost, path: resume + "&digest=" + digest + "&dryRun=true", user: admin})
	a.wantNoJob("unseen")
	a.want(http.StatusOK, request{method: http.MethodPost, path: resume + "&digest=" + digest, user: admin})
	if _, err := client.BatchV1().Jobs(team).Get(t.Context(), "unseen", metav1.GetOptions{}); err != nil {
		t.Errorf("the Job: %v", err)
	}
	a.want(http.StatusOK, request{method: http.MethodDelete, path: jobs + "/unseen?namespace=team", user: admin})
}

// TestResumeMakesNoJobOfAnotherPlace, whatever digest is named.
func TestResumeMakesNoJobOfAnotherPlace(t *testing.T) {
	a := start(t, server.Options{})
	a.breakOff("misplaced", func(job *batchv1.Job) { job.Namespace = metav1.NamespaceSystem })
	for _, query := range []string{"", "&dryRun=true", "&digest=sha256:00"} {
		got := a.want(http.StatusConflict, request{method: http.MethodPost, path: jobs + "/misplaced/resume?namespace=team" + query, user: admin})
		a.same("the code", "MisplacedJob", got["code"])
	}
	a.want(http.StatusOK, request{method: http.MethodDelete, path: jobs + "/misplaced?namespace=team", user: admin})
}

// TestDeleteTakesWhatIsKnownOfAJob, with the Job there and without it, so that no later resume brings it back.
func TestDeleteTakesWhatIsKnownOfAJob(t *testing.T) {
	a := start(t, server.Options{})
	for _, there := range []bool{false, true} {
		a.breakOff("known", func(*batchv1.Job) {})
		if there {
			a.want(http.StatusCreated, request{method: http.MethodPost, path: jobs, user: member, body: yamlOf(training("known"))})
		}
		a.want(http.StatusOK, request{method: http.MethodDelete, path: jobs + "/known?namespace=team", user: member})
		_, err := client.CoordinationV1().Leases(team).Get(t.Context(), "gpuctl-again-known", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			t.Errorf("with the Job there: %t, what is known of it is %v", there, err)
		}
		a.want(http.StatusNotFound, request{method: http.MethodPost, path: jobs + "/known/resume?namespace=team", user: member})
		a.want(http.StatusNotFound, request{method: http.MethodDelete, path: jobs + "/known?namespace=team", user: member})
	}
}

func (a *api) wantNoJob(name string) {
	a.Helper()
	if _, err := client.BatchV1().Jobs(team).Get(a.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		a.Errorf("Job %s: %v, want that there is none", name, err)
	}
}
