package snapshot

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestKueueWorkloadsAreReadInTheVersionThatIsServed asks servers that know the newest version, an older one, and none.
func TestKueueWorkloadsAreReadInTheVersionThatIsServed(t *testing.T) {
	for served, requests := range map[string]int{"v1beta2": 1, "v1beta1": 2, "": 2} {
		asked := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			if r.URL.Path != "/apis/kueue.x-k8s.io/"+served+"/namespaces/team/workloads" {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"apiVersion": "kueue.x-k8s.io/`+served+`", "kind": "WorkloadList", "items": [{"apiVersion": "kueue.x-k8s.io/`+served+`", "kind": "Workload", "metadata": {"name": "w"}}]}`)
		}))
		t.Cleanup(server.Close)
		client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		got, err := Read(t.Context(), client, KueueWorkloads("team").IfAllowed())
		if err != nil {
			t.Fatal(err)
		}
		if found := len(got.KueueWorkloads) == 1; found != (served != "") || found != got.HasPart(PartKueueWorkloads) || asked != requests {
			t.Errorf("%q: found %t after %d requests, unread %v", served, found, asked, got.Unread)
		}
	}
}
