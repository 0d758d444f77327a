package api

import (
	"net/http"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/server"
)

// TestSimulate asks where jobs would go. Nothing is there afterwards.
func TestSimulate(t *testing.T) {
	a := start(t, server.Options{})
	ask := func(status int, user, yaml string) map[string]any {
		t.Helper()
		return a.want(status, request{method: http.MethodPost, path: "/api/v1/simulate?namespace=team", user: user, body: yamlOf(yaml)})
	}
	answer := ask(http.StatusOK, admin, training("first")+"---\n"+tooLarge("second"))
	got, ok := answer["jobs"].([]any)
	if !ok || len(got) != 2 {
		t.Fatalf("the answer is %v, want two jobs", answer)
	}
	first, second := got[0].(map[string]any), got[1].(map[string]any)
	a.same("a job that fits starts", true, first["starts"])
	if places, _ := first["placements"].([]any); len(places) != 1 || places[0].(map[string]any)["node"] == "" {
		t.Errorf("a job that fits would be at %v", first["placements"])
	}
	a.same("a job that fits nowhere starts", false, second["starts"])
	a.same("why it does not", "TooManyGPUs", second["cause"])
	a.same("the policy that decides is that of the cluster, whose ConfigMap an administrator may read", "cluster", answer["policy"])
	a.want(http.StatusNotFound, request{path: jobs + "/first?namespace=team", user: admin})

	refused := ask(http.StatusForbidden, member, training("first"))
	if text, _ := refused["error"].(string); !strings.Contains(text, "pods of all namespaces") {
		t.Errorf("who may not see who else holds GPUs is told %q", text)
	}
	ask(http.StatusUnprocessableEntity, admin, "kind: pool\npool: {name: p}\nnodes: {node-1: {}}\n")
}

// TestSimulateWithoutAScheduler has no gpu-scheduler in the PATH.
func TestSimulateWithoutAScheduler(t *testing.T) {
	a := start(t, server.Options{})
	t.Setenv("PATH", t.TempDir())
	got := a.want(http.StatusServiceUnavailable, request{method: http.MethodPost, path: "/api/v1/simulate", user: admin, body: yamlOf(training("first"))})
	if text, _ := got["error"].(string); !strings.Contains(text, "needs the program gpu-scheduler") {
		t.Errorf("the error is %q", text)
	}
}
