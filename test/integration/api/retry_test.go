package api

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/server"
)

// TestRetryKeepsWhatIsWrittenOnAJob has an administrator start a member's job over: it is the member's all the same.
func TestRetryKeepsWhatIsWrittenOnAJob(t *testing.T) {
	a := start(t, server.Options{})
	a.want(http.StatusCreated, request{method: http.MethodPost, path: jobs, user: member, body: yamlOf(training("again"))})
	a.Cleanup(func() { a.remove("again") })
	notes := []byte(`{"metadata":{"labels":{"team.example.com/cost-centre":"4711"},"annotations":{"team.example.com/ticket":"ML-17"}}}`)
	before, err := client.BatchV1().Jobs(team).Patch(t.Context(), "again", types.MergePatchType, notes, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a.want(http.StatusOK, request{method: http.MethodPost, path: jobs + "/again/cancel?namespace=team", user: member})
	a.want(http.StatusOK, request{method: http.MethodPost, path: jobs + "/again/retry?namespace=team", user: admin})
	after, err := client.BatchV1().Jobs(team).Get(t.Context(), "again", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if after.UID == before.UID {
		t.Error("the job was not made again")
	}
	a.same("who submitted it", before.Annotations[names.AnnotationUser], after.Annotations[names.AnnotationUser])
	a.same("the ticket", "ML-17", after.Annotations["team.example.com/ticket"])
	a.same("the labels", before.Labels, after.Labels)
}
