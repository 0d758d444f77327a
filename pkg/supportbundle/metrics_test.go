package supportbundle

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestMetrics: those that pods tell are taken without what looks secret; a pod that refuses, is too large or has no port for
// them ends nothing.
func TestMetrics(t *testing.T) {
	pod := func(namespace, name, port, phase string, number int) string {
		return fmt.Sprintf(`{"metadata":{"namespace":%q,"name":%q},"spec":{"containers":[{"ports":[{"name":%q,"containerPort":%d}]}]},`+
			`"status":{"phase":%q,"containerStatuses":"REMOVED"}}`, namespace, name, port, number, phase)
	}
	pods := strings.Join([]string{
		pod("kube-system", "gpu-scheduler-1", "https", "Running", 10259),
		pod("kube-system", "gpu-controller-1", "metrics", "Running", 8443),
		pod("kube-system", "gpu-controller-2", "metrics", "Pending", 8443),
		pod("kube-system", "gpu-ledger-0", "explain", "Running", 8443),
	}, ",")
	agents := pod("kube-system", "gpu-agent-1", "metrics", "Running", 10262) + "," + pod("kube-system", "gpu-agent-2", "metrics", "Running", 10262)
	proxied := "/api/v1/namespaces/kube-system/pods/"
	files := bundle(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case proxied[:len(proxied)-1]:
			items := pods
			if strings.HasSuffix(r.URL.Query().Get("labelSelector"), "/name=gpu-agent") {
				items = agents
			}
			fmt.Fprintf(w, `{"kind":"List","items":[%s]}`, items)
		case proxied + "https:gpu-scheduler-1:10259/proxy/metrics":
			http.Error(w, `Forbidden: "/metrics"`, http.StatusForbidden)
		case proxied + "https:gpu-controller-1:8443/proxy/metrics":
			fmt.Fprint(w, strings.Repeat("x", maxMetricsBytes+1))
		case proxied + "gpu-agent-1:10262/proxy/metrics":
			fmt.Fprintf(w, "gpu_agent_cards{state=\"healthy\"} 8\nx{token=%q} 1\n", planted)
		default:
			http.NotFound(w, r)
		}
	}, nil)
	got := files["metrics/kube-system/gpu-agent-1.txt"]
	if !strings.Contains(got, `gpu_agent_cards{state="healthy"} 8`) || strings.Contains(got, planted) {
		t.Errorf("the agent's metrics are %q", got)
	}
	index := files["index.json"]
	for _, want := range []string{
		"metrics/kube-system/gpu-scheduler-1.txt", "who asks", "larger than 4 MiB", "metrics/kube-system/gpu-agent-2.txt",
	} {
		if !strings.Contains(index, want) {
			t.Errorf("the index does not say %q: %s", want, index)
		}
	}
	for _, never := range []string{"metrics/kube-system/gpu-controller-2", "metrics/kube-system/gpu-ledger"} {
		if strings.Contains(index, never) {
			t.Errorf("%s was asked for", never)
		}
	}
}
