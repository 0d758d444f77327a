package api

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/server"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// sending is a job with a folder of the machine that submits it.
func sending(name string) string {
	return strings.Replace(training(name), "namespace: team", "namespace: team, workdir: .", 1)
}

// TestAFolderIsNotSentByREST: only gpuctl has the folder, which is said wherever a job would be made, and nothing is made. Where it
// would run may be asked, and whether its YAML is right.
func TestAFolderIsNotSentByREST(t *testing.T) {
	a := start(t, server.Options{})
	dry := yamlOf(sending("folder"))
	dry["dryRun"] = true
	for name, r := range map[string]request{
		"a submission":   {method: http.MethodPost, path: jobs, user: member, body: yamlOf(sending("folder"))},
		"a dry run":      {method: http.MethodPost, path: jobs, user: member, body: dry},
		"an application": {method: http.MethodPut, path: jobs, user: member, body: yamlOf(sending("folder"))},
	} {
		got := a.want(http.StatusUnprocessableEntity, r)
		if text, _ := got["error"].(string); !strings.Contains(text, "was not sent: create the job with gpuctl there") {
			t.Errorf("%s is refused with %q", name, text)
		}
	}
	list, err := client.BatchV1().Jobs(team).List(t.Context(), metav1.ListOptions{LabelSelector: "g8s.host/job=folder"})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("%d jobs were made, error %v", len(list.Items), err)
	}
	a.same("whether the YAML is right", true, a.want(http.StatusOK, request{method: http.MethodPost, path: "/api/v1/validate", user: nobody, body: yamlOf(sending("folder"))})["valid"])
}

// TestAFolderThatWasSentStaysWithItsJob: what gpuctl has sent goes with a job that others change and start over by REST.
func TestAFolderThatWasSentStaysWithItsJob(t *testing.T) {
	a := start(t, server.Options{})
	docs, problems := workload.Parse("t.yaml", []byte(sending("sent")))
	if problems.HasErrors() {
		t.Fatal(problems)
	}
	docs[0].Upload = workload.NewUpload(strings.Repeat("ab", 32), []byte("an archive"))
	objects, _, err := render.Objects(docs[0], render.Options{Namespace: team})
	if err != nil {
		t.Fatal(err)
	}
	writer, err := submit.Connect(cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Create(t.Context(), objects); err != nil {
		t.Fatal(err)
	}
	a.Cleanup(func() { a.remove("sent") })
	a.eventually("the list to show the job", func() bool { return a.item(reader, "sent") != nil })
	a.want(http.StatusOK, request{method: http.MethodPost, path: jobs + "/sent/cancel?namespace=team", user: member})
	a.want(http.StatusOK, request{method: http.MethodPost, path: jobs + "/sent/retry?namespace=team", user: member})
	parts, err := client.CoreV1().ConfigMaps(team).List(t.Context(), metav1.ListOptions{LabelSelector: "g8s.host/job=sent"})
	if err != nil || len(parts.Items) != 1 || string(parts.Items[0].BinaryData["part"]) != "an archive" {
		t.Errorf("the folder is %v, error %v", parts.Items, err)
	}
}
