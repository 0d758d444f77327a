package api

import (
	"context"
	"net/http"
	"testing"

	"g8s.host/gpu-scheduler/pkg/server"
	"g8s.host/gpu-scheduler/test/integration/api/apiclient"
)

// TestAGeneratedClient creates, lists and deletes a job with a client that an outside generator made from the document
// alone. `make generate` makes it again.
func TestAGeneratedClient(t *testing.T) {
	a := start(t, server.Options{})
	authorized := apiclient.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
		r.Header.Set("Authorization", "Bearer "+users[member])
		return nil
	})
	generated, err := apiclient.NewClientWithResponses(a.URL, authorized)
	if err != nil {
		t.Fatal(err)
	}
	a.Cleanup(func() { a.remove("generated") })
	created, err := generated.CreateJobWithResponse(t.Context(), &apiclient.CreateJobParams{}, apiclient.CreateJobJSONRequestBody{YamlContent: training("generated")})
	if err != nil || created.JSON201 == nil || created.JSON201.JobId != "generated" {
		t.Fatalf("the answer to a creation is %s, error %v", created.Body, err)
	}
	namespace, name := team, "generated"
	list, err := generated.ListJobsWithResponse(t.Context(), &apiclient.ListJobsParams{Namespace: &namespace, Name: &name})
	if err != nil || list.JSON200 == nil || list.JSON200.Total != 1 {
		t.Fatalf("the list is %s, error %v", list.Body, err)
	}
	deleted, err := generated.DeleteJobWithResponse(t.Context(), name, &apiclient.DeleteJobParams{Namespace: &namespace})
	if err != nil || deleted.JSON200 == nil {
		t.Fatalf("the answer to a deletion is %s, error %v", deleted.Body, err)
	}
	again, err := generated.DeleteJobWithResponse(t.Context(), "none", &apiclient.DeleteJobParams{Namespace: &namespace})
	if err != nil || again.JSON404 == nil || again.JSON404.Code != "NotFound" {
		t.Fatalf("the answer to a second deletion is %s, error %v", again.Body, err)
	}
}
