package api

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/server"
)

// rawPod is a pod that nobody made with gpuctl, and that waits for GPUs of a node which it names, and not its pool.
func (a *api) rawPod(name, scheduler string, labels map[string]string) {
	a.Helper()
	gpu := corev1.ResourceList{names.ResourceGPU: resource.MustParse("1")}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PodSpec{
			SchedulerName: scheduler, NodeSelector: map[string]string{corev1.LabelHostname: "node-1"},
			Containers: []corev1.Container{{Name: "main", Image: "busybox", Resources: corev1.ResourceRequirements{Requests: gpu, Limits: gpu}}},
		},
	}
	if _, err := client.CoreV1().Pods(team).Create(a.Context(), pod, metav1.CreateOptions{}); err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { _ = client.CoreV1().Pods(team).Delete(a.Context(), name, metav1.DeleteOptions{}) })
}

// TestAPodThatGpuctlHasNotMadeIsExplained, in the same words by both surfaces, and to those only who may read it.
func TestAPodThatGpuctlHasNotMadeIsExplained(t *testing.T) {
	a := start(t, server.Options{})
	a.rawPod("raw", names.SchedulerName, nil)
	a.rawPod("theirs", "other-scheduler", nil)
	explain := func(name string) string { return "/api/v1/pods/" + name + "/explain?namespace=team" }

	byAPI := a.want(http.StatusOK, request{path: explain("raw"), user: admin})
	a.same("the kind", "pod", byAPI["kind"])
	code, stdout, stderr := a.gpuctl("", "why", "raw", "-n", team, "-o", "json")
	var byCLI map[string]any
	if err := json.Unmarshal([]byte(stdout), &byCLI); code != 0 || err != nil {
		t.Fatalf("gpuctl why ends with %d, %v: %s%s", code, err, stdout, stderr)
	}
	if diff := cmp.Diff(byCLI, byAPI); diff != "" {
		t.Errorf("why by gpuctl and by the API (-gpuctl +API):\n%s", diff)
	}
	if findings, _ := byAPI["findings"].([]any); len(findings) == 0 {
		t.Errorf("it finds nothing: %v", byAPI)
	}
	a.same("the code", "OtherScheduler", a.want(http.StatusConflict, request{path: explain("theirs"), user: admin})["code"])
	a.want(http.StatusNotFound, request{path: explain("none"), user: admin})
	a.want(http.StatusOK, request{path: explain("raw"), user: reader})
	for _, name := range []string{"raw", "none"} {
		a.want(http.StatusForbidden, request{path: explain(name), user: nobody})
	}
}

// TestAPodOfAJobIsExplainedAsItsJob, also where there is no such job.
func TestAPodOfAJobIsExplainedAsItsJob(t *testing.T) {
	a := start(t, server.Options{})
	a.create("whole", training("whole"))
	var pod string
	a.eventually("a pod of the job", func() bool {
		pods, err := client.CoreV1().Pods(team).List(t.Context(), metav1.ListOptions{LabelSelector: "g8s.host/job=whole"})
		if err == nil && len(pods.Items) > 0 {
			pod = pods.Items[0].Name
		}
		return pod != ""
	})
	report := a.want(http.StatusOK, request{path: "/api/v1/pods/" + pod + "/explain?namespace=team", user: member})
	a.same("what is explained", []any{"training", "whole"}, []any{report["kind"], report["job"]})
}
