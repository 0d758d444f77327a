package gang

import (
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/testutil"
)

// counts are sums of the scheduler's metrics, by their names and what they are for.
type counts map[string]float64

// counted reads what the scheduler that leads counts of those that leave.
func (e *env) counted() counts {
	e.Helper()
	config := cluster.RESTConfig()
	config.CAData, config.CAFile = nil, ""
	config.Insecure = true // the scheduler serves a certificate of its own making
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		e.Fatal(err)
	}
	client.Timeout = 10 * time.Second
	response, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/metrics", cluster.Scheduler.Port()))
	if err != nil {
		e.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // nothing is written
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		e.Fatalf("reading /metrics: %s, %v", response.Status, err)
	}
	metrics, out := testutil.NewMetrics(), counts{}
	if err := testutil.ParseMetrics(string(body), &metrics); err != nil {
		e.Fatal(err)
	}
	for _, name := range []string{"gpu_scheduler_evictions_total", "scheduler_preemption_victims_sum"} {
		for _, sample := range metrics[name] {
			out[name+" "+string(sample.Metric["for"])] += float64(sample.Value)
		}
	}
	return out
}

// countedSince demands that so many were counted since then, and no others.
func (e *env) countedSince(before counts, want counts) {
	e.Helper()
	after := e.counted()
	for name, value := range after {
		if got := value - before[name]; got != want[name] {
			e.Errorf("%s grows by %v, want %v", name, got, want[name])
		}
	}
}
