package snapshot

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestObjectsAreAskedForInJSON though gpuctl's client prefers protobuf, in which API servers answer for Jobs.
func TestObjectsAreAskedForInJSON(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if accepts := r.Header.Get("Accept"); accepts != runtime.ContentTypeJSON {
			t.Errorf("it accepts %s", accepts)
		}
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		_, _ = io.WriteString(w, `{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "ddp"}}`)
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{
		ContentType: runtime.ContentTypeProtobuf, AcceptContentTypes: runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON,
	}})
	if err != nil {
		t.Fatal(err)
	}
	ref := ObjectRef{Resource: schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, Namespace: "team", Name: "ddp"}
	got, err := Read(t.Context(), client, Objects(ref))
	if err != nil || got.Objects[ref] == nil {
		t.Errorf("got %v, %v", got, err)
	}
}
