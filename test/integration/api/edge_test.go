package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/server"
)

// TestTheAuditSaysWhoDidWhat in one line for each write, and holds no secrets.
func TestTheAuditSaysWhoDidWhat(t *testing.T) {
	a := start(t, server.Options{})
	secret := strings.Replace(training("audited"), "image: busybox", "image: busybox, env: [{name: TOKEN, value: hunter2}]", 1)
	a.create("audited", secret)
	a.want(http.StatusForbidden, request{method: http.MethodDelete, path: jobs + "/audited?namespace=team", user: nobody})
	a.want(http.StatusOK, request{path: jobs + "?namespace=team", user: reader})
	var lines []map[string]any
	for line := range strings.Lines(a.log.String()) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if entry["msg"] == "Audit" {
			lines = append(lines, only(entry, "user", "method", "path", "objects", "status"))
		}
	}
	want := []map[string]any{
		{"user": "system:serviceaccount:users:member", "method": "POST", "path": jobs, "objects": []any{"training/team/audited"}, "status": 201.0},
		{"user": "system:serviceaccount:users:nobody", "method": "DELETE", "path": jobs + "/audited", "objects": nil, "status": 403.0},
	}
	a.same("the audit", want, lines)
	for _, word := range []string{"hunter2", users[member], "Bearer"} {
		if strings.Contains(a.log.String(), word) {
			t.Errorf("the log holds %.10s…", word)
		}
	}
}

// TestOnlyListedOriginsMayCall lets pages of one origin in, and tells browsers nothing of the others.
func TestOnlyListedOriginsMayCall(t *testing.T) {
	a := start(t, server.Options{Origins: []string{"https://console.example.com"}})
	preflight := func(origin string) response {
		return a.do(request{method: http.MethodOptions, path: jobs, header: map[string]string{
			"Origin": origin, "Access-Control-Request-Method": "POST",
		}})
	}
	allowed := preflight("https://console.example.com")
	a.same("the status", http.StatusNoContent, allowed.status)
	a.same("the origin", "https://console.example.com", allowed.header.Get("Access-Control-Allow-Origin"))
	if got := preflight("https://evil.example.com").header.Get("Access-Control-Allow-Origin"); got != "" {
		t.Errorf("another origin is let in: %q", got)
	}
}

// TestMetricsComeFromPrometheusOrNotAtAll: what was not measured is no zero.
func TestMetricsComeFromPrometheusOrNotAtAll(t *testing.T) {
	var query string
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		result := "[]"
		if strings.Contains(r.Form.Get("query"), "GPU_UTIL") {
			query = r.Form.Get("query")
			result = `[{"metric":{},"values":[[1700000000,"87.5"]]}]`
		}
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"matrix","result":` + result + `}}`))
	}))
	defer prometheus.Close()
	a := start(t, server.Options{Prometheus: prometheus.URL})
	a.create("measured", training("measured"))
	a.eventually("the job's pod", func() bool {
		pods, err := client.CoreV1().Pods(team).List(t.Context(), metav1.ListOptions{LabelSelector: "g8s.host/job=measured"})
		return err == nil && len(pods.Items) == 1
	})
	got := a.want(http.StatusOK, request{path: jobs + "/measured/metrics?namespace=team", user: reader})
	series, _ := got["gpuUtilization"].([]any)
	if len(series) != 1 {
		t.Fatalf("the answer is %v", got)
	}
	sample, _ := series[0].(map[string]any)
	a.same("the sample", 87.5, sample["value"])
	a.same("what was not measured", []any{}, got["memoryUsage"])
	if !strings.Contains(query, `namespace="team"`) || !strings.Contains(query, `pod=~"measured-`) {
		t.Errorf("the query is not about the job's pods alone: %s", query)
	}
	none := start(t, server.Options{})
	refused := none.want(http.StatusServiceUnavailable, request{path: jobs + "/measured/metrics?namespace=team", user: reader})
	a.same("without Prometheus", "NotConfigured", refused["code"])
}

// TestForeignObjectsStay when a job of the same name is asked to go: only what gpuctl made is a job.
func TestForeignObjectsStay(t *testing.T) {
	a := start(t, server.Options{})
	foreign := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "svc-foreign"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	if _, err := client.CoreV1().Services(team).Create(t.Context(), foreign, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	a.Cleanup(func() { a.remove("foreign") })
	a.want(http.StatusNotFound, request{method: http.MethodDelete, path: jobs + "/foreign?namespace=team", user: member})
	if _, err := client.CoreV1().Services(team).Get(t.Context(), "svc-foreign", metav1.GetOptions{}); err != nil {
		t.Errorf("somebody else's Service is gone: %v", err)
	}
	refused := a.want(http.StatusConflict, request{method: http.MethodPost, path: jobs, user: member, body: yamlOf(inference("foreign"))})
	a.same("the code", "AlreadyExists", refused["code"])
	a.eventually("nothing to be left behind", func() bool {
		left, err := client.AppsV1().Deployments(team).List(t.Context(), metav1.ListOptions{LabelSelector: "g8s.host/job=foreign"})
		return err == nil && len(left.Items) == 0
	})
}

// TestNamesAreWholeAndEventsAreThosOfPods: the first gpuctl cut names at their dashes, and saw no event of a pod.
func TestNamesAreWholeAndEventsAreThoseOfPods(t *testing.T) {
	a := start(t, server.Options{})
	const name = "qwen2-7b-llamafactory-sft"
	a.create(name, training(name))
	a.same("the name", name, a.item(reader, name)["name"])
	a.eventually("an event of the job", func() bool {
		events := a.want(http.StatusOK, request{path: jobs + "/" + name + "/events?namespace=team", user: reader})
		items, _ := events["items"].([]any)
		return len(items) > 0
	})
	pods := a.want(http.StatusOK, request{path: jobs + "/" + name + "/pods?namespace=team", user: reader})
	items, _ := pods["items"].([]any)
	if len(items) != 1 {
		t.Fatalf("the pods are %v", pods)
	}
	pod, _ := items[0].(map[string]any)
	podName, _ := pod["name"].(string)
	byPod := a.want(http.StatusOK, request{path: jobs + "/" + podName + "?namespace=team", user: reader})
	a.same("the job of a pod", name, byPod["jobId"])
}

// TestAJobIsFoundByANewPod before the server has seen the pod: what it remembers is a moment old.
func TestAJobIsFoundByANewPod(t *testing.T) {
	a := start(t, server.Options{})
	const name = "newest"
	a.create(name, training(name))
	for range 20 {
		pod, err := client.CoreV1().Pods(team).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-", Labels: map[string]string{names.LabelJob: name}},
			Spec:       corev1.PodSpec{SchedulerName: "none", Containers: []corev1.Container{{Name: "main", Image: "python:3.12"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		found := a.want(http.StatusOK, request{path: jobs + "/" + pod.Name + "?namespace=team", user: reader})
		a.same("the job of a pod", name, found["jobId"])
		if err := client.CoreV1().Pods(team).Delete(t.Context(), pod.Name, *metav1.NewDeleteOptions(0)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTheDocsPageNeedsNobodyElse: what it loads, it loads from this server.
func TestTheDocsPageNeedsNobodyElse(t *testing.T) {
	a := start(t, server.Options{})
	got := a.do(request{path: "/docs"})
	if got.status != http.StatusOK || strings.Contains(string(got.body), "http://") || strings.Contains(string(got.body), "https://") {
		t.Errorf("status %d; the page names another server", got.status)
	}
	if policy := got.header.Get("Content-Security-Policy"); !strings.Contains(policy, "connect-src 'self'") ||
		strings.Contains(policy, "unsafe") || strings.Count(policy, "'sha256-") != strings.Count(string(got.body), "<script>")+strings.Count(string(got.body), "<style>") {
		t.Errorf("the policy is %q", policy)
	}
}
