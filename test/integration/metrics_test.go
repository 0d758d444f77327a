package integration

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/testutil"

	"g8s.host/gpu-scheduler/test/fixture"
)

// TestMetrics reads the scheduler's own endpoint after it has placed a pod and rejected others.
func TestMetrics(t *testing.T) {
	e := newEnv(t)
	e.createNodes(
		fixture.Node("a").Pool("metrics").GPUs(8, "A100-80G").Obj(),
		fixture.Node("b").Pool("metrics").GPUs(8, "A100-80G").Obj())
	e.runOneByOne(fixture.Pod("pod").GPUs(1).Pool("metrics").Obj())
	e.createPods(
		fixture.Pod("too-large").GPUs(9).Pool("metrics").Obj(),
		fixture.Pod("nowhere").GPUs(1).Pool("metrics").Type("H900").Obj())
	e.waitUnschedulable("too-large")
	e.waitUnschedulable("nowhere")

	metrics := scrape(t)
	compareWithDocs(t, metrics)
	for _, want := range []struct {
		name, label, value string
		positive           bool
	}{
		{name: "gpu_scheduler_filter_candidate_nodes_count", positive: true},
		{name: "gpu_scheduler_filter_node_rejections_total", label: "reason", value: "too_small", positive: true},
		{name: "gpu_scheduler_filter_pod_rejections_total", label: "reason", value: "no_candidates", positive: true},
		{name: "gpu_scheduler_score_pods_total", label: "request", value: "whole", positive: true},
		{name: "gpu_scheduler_bindings_in_flight"},
		{name: "gpu_scheduler_binding_wait_seconds_count"},
		{name: "gpu_scheduler_devices_malformed_inventories_total"},
		{name: "gpu_scheduler_policy_reload_total", label: "result", value: "success"},
		{name: "gpu_scheduler_policy_reload_total", label: "result", value: "refused"},
		{name: "gpu_scheduler_policy_generation", label: "profile", value: "gpu-scheduler"},
		{name: "gpu_scheduler_policy_last_reload_successful", label: "profile", value: "gpu-scheduler"},
	} {
		if got, ok := sum(metrics, want.name, want.label, want.value); !ok || want.positive && got <= 0 {
			t.Errorf("%s{%s=%q} is %v, there: %v", want.name, want.label, want.value, got, ok)
		}
	}
}

// compareWithDocs holds the table of docs/configuration.md to what the scheduler shows.
func compareWithDocs(t *testing.T, metrics testutil.Metrics) {
	t.Helper()
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented, shown []string
	for _, match := range regexp.MustCompile("(?m)^\\| `(gpu_scheduler_[a-z_]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, match[1])
	}
	for name := range metrics {
		if strings.HasPrefix(name, "gpu_scheduler_") {
			shown = append(shown, regexp.MustCompile("_(bucket|sum|count)$").ReplaceAllString(name, ""))
		}
	}
	slices.Sort(documented)
	slices.Sort(shown)
	if diff := cmp.Diff(documented, slices.Compact(shown)); diff != "" {
		t.Errorf("metrics (-docs/configuration.md +/metrics):\n%s", diff)
	}
}

// checkWakeUps fails if a pod was tried again because it had waited for long. Kubernetes does so every five minutes,
// for pods that an event should have woken and did not.
func checkWakeUps() error {
	metrics, err := readMetrics()
	if err != nil {
		return err
	}
	if flushed, _ := sum(metrics, "scheduler_queue_incoming_pods_total", "event", "UnschedulableTimeout"); flushed > 0 {
		return fmt.Errorf("%v times a pod was tried again for having waited long: a queueing hint is missing", flushed)
	}
	return nil
}

// sum adds up a metric's samples with a label's value, and reports whether there is any. No label takes all.
func sum(metrics testutil.Metrics, name, label, value string) (total float64, found bool) {
	for _, sample := range metrics[name] {
		if label == "" || string(sample.Metric[testutil.LabelName(label)]) == value {
			total, found = total+float64(sample.Value), true
		}
	}
	return total, found
}

func scrape(t *testing.T) testutil.Metrics {
	t.Helper()
	metrics, err := readMetrics()
	if err != nil {
		t.Fatal(err)
	}
	return metrics
}

// readMetrics reads /metrics with the administrator's client certificate.
func readMetrics() (testutil.Metrics, error) {
	config := cluster.RESTConfig()
	config.CAData, config.CAFile = nil, ""
	config.Insecure = true // the scheduler serves a certificate of its own making
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client.Timeout = 10 * time.Second
	response, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/metrics", scheduler.Port()))
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // nothing is written
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading /metrics: %s\n%s", response.Status, body)
	}
	metrics := testutil.NewMetrics()
	return metrics, testutil.ParseMetrics(string(body), &metrics)
}
