package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/server"
)

const jobs = "/api/v1/jobs"

// yamlOf is the body of a request that brings YAML.
func yamlOf(content string) map[string]any { return map[string]any{"yamlContent": content} }

// item is the only job of a list that has the name; nil if there is none.
func (a *api) item(user, name string) map[string]any {
	a.Helper()
	list := a.want(http.StatusOK, request{path: jobs + "?namespace=team&name=" + name, user: user})
	items, _ := list["items"].([]any)
	if len(items) != 1 {
		return nil
	}
	item, _ := items[0].(map[string]any)
	return item
}

// only keeps some keys of a value.
func only(value map[string]any, keys ...string) map[string]any {
	out := map[string]any{}
	for _, key := range keys {
		out[key] = value[key]
	}
	return out
}

func (a *api) same(what string, want, got any) {
	a.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		a.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestLifeOfAJob goes through what a job can be told, and what lists show of it right afterwards.
func TestLifeOfAJob(t *testing.T) {
	a := start(t, server.Options{})
	source := training("life")
	created := a.want(http.StatusCreated, request{method: http.MethodPost, path: jobs, user: member, body: yamlOf(source)})
	a.Cleanup(func() { a.remove("life") })
	a.same("the answer to a submission", map[string]any{
		"jobId": "life", "name": "life", "namespace": "team", "kind": "training", "status": "pending", "message": "任务已提交至资源池",
	}, only(created, "jobId", "name", "namespace", "kind", "status", "message"))
	a.same("the job in the list", map[string]any{"jobId": "life", "ready": "0/1", "gpus": 1.0, "pool": "train", "priority": "medium"},
		only(a.item(reader, "life"), "jobId", "ready", "gpus", "pool", "priority"))

	spec := a.want(http.StatusOK, request{path: jobs + "/life/spec", user: reader})
	a.same("the YAML", source, spec["yamlContent"])
	detail := a.want(http.StatusOK, request{path: jobs + "/life", user: reader})
	a.same("what the job asks", map[string]any{"cpu": "1", "memory": "1Gi", "gpu": 1.0}, detail["resources"])
	a.same("the kind of its object", "Job", detail["resourceType"])

	paused := a.want(http.StatusOK, request{method: http.MethodPost, path: jobs + "/life/pause", user: member})
	a.same("the answer to a pause", map[string]any{"status": "paused", "gpus": 1.0}, only(paused, "status", "gpus"))
	a.eventually("the list to show the pause", func() bool { return a.item(reader, "life")["status"] == "Suspended" })
	again := a.want(http.StatusOK, request{method: http.MethodPost, path: jobs + "/life/pause", user: member})
	a.same("a second pause", "unchanged", again["status"])
	changed := a.want(http.StatusOK, request{method: http.MethodPatch, path: jobs + "/life", user: member, body: map[string]any{"priority": "high"}})
	if changed["status"] != "replaced" && changed["status"] != "configured" {
		t.Errorf("the change of the priority is %v", changed)
	}
	a.eventually("the list to show the priority", func() bool { return a.item(reader, "life")["priority"] == "high" })
	a.want(http.StatusOK, request{method: http.MethodPost, path: jobs + "/life/resume", user: member})

	deleted := a.want(http.StatusOK, request{method: http.MethodDelete, path: jobs + "/life?force=true", user: member})
	a.same("the answer to a deletion", map[string]any{"jobId": "life", "status": "terminating", "message": "任务删除指令已下发"},
		only(deleted, "jobId", "status", "message"))
	a.eventually("the job to be gone", func() bool {
		return a.do(request{path: jobs + "/life?namespace=team", user: reader}).status == http.StatusNotFound
	})
}

func TestADryRunCreatesNothing(t *testing.T) {
	a := start(t, server.Options{})
	body := yamlOf(training("dry"))
	body["dryRun"] = true
	got := a.want(http.StatusOK, request{method: http.MethodPost, path: jobs, user: member, body: body})
	a.same("the status", "valid", got["status"])
	list, err := client.BatchV1().Jobs(team).List(t.Context(), metav1.ListOptions{LabelSelector: "g8s.host/job=dry"})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("%d jobs were created, error %v", len(list.Items), err)
	}
}

func TestApplyTwiceWritesOnce(t *testing.T) {
	a := start(t, server.Options{})
	a.Cleanup(func() { a.remove("applied") })
	apply := func(status int, yaml string) any {
		return a.want(status, request{method: http.MethodPut, path: jobs, user: member, body: yamlOf(yaml)})["status"]
	}
	a.same("the first time", "created", apply(http.StatusCreated, inference("applied")))
	a.same("the second time", "unchanged", apply(http.StatusOK, inference("applied")))
	a.same("with more replicas", "configured", apply(http.StatusOK, strings.Replace(inference("applied"), "replicas: 1", "replicas: 2", 1)))
	scaled := a.want(http.StatusOK, request{method: http.MethodPatch, path: jobs + "/applied", user: member, body: map[string]any{"replicas": 3}})
	a.same("scaled", "configured", scaled["status"])
	a.eventually("the list to show three replicas", func() bool { return a.item(reader, "applied")["ready"] == "0/3" })
	spec := a.want(http.StatusOK, request{path: jobs + "/applied/spec", user: reader})
	if text, _ := spec["yamlContent"].(string); !strings.Contains(text, "replicas: 3") {
		t.Errorf("the YAML of the job was left behind:\n%s", text)
	}
}

// TestAnInvalidYAMLIsRefusedWithItsPlace sends what gpuctl would refuse, with the same line and column.
func TestAnInvalidYAMLIsRefusedWithItsPlace(t *testing.T) {
	a := start(t, server.Options{})
	yaml := strings.Replace(training("typo"), "gpu: 1", "gpus: 1", 1)
	got := a.want(http.StatusUnprocessableEntity, request{method: http.MethodPost, path: jobs, user: member, body: yamlOf(yaml)})
	a.same("the code", "InvalidYAML", got["code"])
	details, _ := got["details"].([]any)
	if len(details) == 0 {
		t.Fatalf("no details in %v", got)
	}
	first, _ := details[0].(map[string]any)
	a.same("the line", 4.0, first["line"])
	if message, _ := first["message"].(string); !strings.Contains(message, `"gpu"`) {
		t.Errorf("the message suggests nothing: %v", first)
	}
	checked := a.want(http.StatusOK, request{method: http.MethodPost, path: "/api/v1/validate", user: nobody, body: yamlOf(yaml)})
	a.same("validate", false, checked["valid"])
}

// TestABatchSubmitsEachForItself has the index of a document that fails as a number, beside those that do not.
func TestABatchSubmitsEachForItself(t *testing.T) {
	a := start(t, server.Options{})
	a.Cleanup(func() { a.remove("batch-a"); a.remove("batch-b") })
	got := a.want(http.StatusMultiStatus, request{method: http.MethodPost, path: jobs + "/batch", user: member,
		body: map[string]any{"yamlContents": []string{training("batch-a"), "kind: nonsense", inference("batch-b")}}})
	success, _ := got["success"].([]any)
	failed, _ := got["failed"].([]any)
	if len(success) != 2 || len(failed) != 1 {
		t.Fatalf("%d succeeded and %d failed: %v", len(success), len(failed), got)
	}
	failure, _ := failed[0].(map[string]any)
	a.same("the index", 1.0, failure["index"])
	a.same("its status", 422.0, failure["httpStatus"])
	made, _ := success[1].(map[string]any)
	a.same("the status of a job", 201.0, made["httpStatus"])

	dry := a.want(http.StatusOK, request{method: http.MethodPost, path: jobs + "/batch", user: member,
		body: map[string]any{"yamlContents": []string{training("batch-c")}, "dryRun": true}})
	valid, _ := dry["success"].([]any)[0].(map[string]any)
	a.same("the status of a dry run", 200.0, valid["httpStatus"])
}

// TestAJobThatIsNotThere is 404 to who may see jobs anywhere, and 403 to who may see none.
func TestAJobThatIsNotThere(t *testing.T) {
	a := start(t, server.Options{})
	a.create("there", training("there"))
	for _, path := range []string{"/api/v1/jobs/none", "/api/v1/jobs/none?namespace=team", "/api/v1/jobs/none/explain", "/api/v1/jobs/none/logs?namespace=team"} {
		a.want(http.StatusNotFound, request{path: path, user: reader})
		a.want(http.StatusForbidden, request{path: path, user: nobody})
	}
	a.want(http.StatusForbidden, request{path: "/api/v1/jobs/none?namespace=other", user: reader})
	a.want(http.StatusNotFound, request{method: http.MethodDelete, path: "/api/v1/jobs/none?namespace=team", user: reader})
}
