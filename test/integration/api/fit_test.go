package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/server"
)

// tooLarge is a job that no node of the fleet could ever hold.
func tooLarge(name string) string {
	return strings.Replace(training(name), "gpu: 1", "gpu: 9", 1)
}

// TestAJobThatNoNodeCouldEverHoldIsWarnedOf, in the words of gpuctl create, wherever its YAML is sent, and not to who
// may not list nodes.
func TestAJobThatNoNodeCouldEverHoldIsWarnedOf(t *testing.T) {
	a := start(t, server.Options{})
	const why = "a pod asks for 9 GPUs, and the largest such node of pool train has 8"
	warned := func(what string, got map[string]any, key string) {
		t.Helper()
		if text := fmt.Sprint(got[key]); !strings.Contains(text, why) {
			t.Errorf("%s does not warn: %v", what, got)
		}
	}
	batch := map[string]any{"yamlContents": []string{tooLarge("large")}, "dryRun": true}
	warned("a submission", a.want(http.StatusOK, request{method: http.MethodPost, path: jobs, user: member, body: dry(tooLarge("large"))}), "warnings")
	warned("a batch", a.want(http.StatusOK, request{method: http.MethodPost, path: jobs + "/batch", user: member, body: batch}), "success")
	warned("an apply", a.want(http.StatusOK, request{method: http.MethodPut, path: jobs, user: member, body: dry(tooLarge("large"))}), "warnings")
	warned("a rendering", a.want(http.StatusOK, request{method: http.MethodPost, path: "/api/v1/render", user: member, body: yamlOf(tooLarge("large"))}), "warnings")
	checked := a.want(http.StatusOK, request{method: http.MethodPost, path: "/api/v1/validate", user: member, body: yamlOf(tooLarge("large"))})
	warned("a validation", checked, "diagnostics")
	a.same("a document that is only warned of", true, checked["valid"])

	silent := a.want(http.StatusOK, request{method: http.MethodPost, path: "/api/v1/validate", user: nobody, body: yamlOf(tooLarge("large"))})
	a.same("what nobody is told of nodes", []any{}, silent["diagnostics"])
	fits := a.want(http.StatusOK, request{method: http.MethodPost, path: jobs, user: member, body: dry(training("fits"))})
	const unasked = "whether the API server would take the pods of job fits could not be asked: you may not create objects of kind Pod in namespace team"
	a.same("the warnings of a job that fits", []any{unasked}, fits["warnings"])
}

// TestWhoSubmittedAJobIsTheCaller, whatever the YAML or the request says.
func TestWhoSubmittedAJobIsTheCaller(t *testing.T) {
	a := start(t, server.Options{})
	const who = "system:serviceaccount:users:member"
	a.create("signed", training("signed"))
	a.same("the user of a submitted job", who, a.item(reader, "signed")["user"])
	a.Cleanup(func() { a.remove("signed-apply") })
	a.want(http.StatusCreated, request{method: http.MethodPut, path: jobs, user: member, body: yamlOf(inference("signed-apply")),
		header: map[string]string{"X-Remote-User": "somebody-else"}})
	a.same("the user of an applied job", who, a.want(http.StatusOK, request{path: jobs + "/signed-apply?namespace=team", user: reader})["user"])
	changed := strings.Replace(inference("signed-apply"), "replicas: 1", "replicas: 2", 1)
	a.want(http.StatusOK, request{method: http.MethodPut, path: jobs, user: admin, body: yamlOf(changed)})
	a.same("the user after somebody else changed it", who, a.item(reader, "signed-apply")["user"])
}
