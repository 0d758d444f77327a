package process

import (
	"fmt"
	"io"
	"net/http"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/testutil"
)

// metrics is what a scheduler has counted itself.
type metrics struct {
	families map[string]*dto.MetricFamily
}

// scrape reads a scheduler's metrics as the administrator.
func (l *Lab) scrape(port int) (metrics, error) {
	body, err := l.get(port, "/metrics")
	if err != nil {
		return metrics{}, err
	}
	defer func() { _ = body.Close() }()
	families, err := testutil.TextToMetricFamilies(body)
	if err != nil {
		return metrics{}, fmt.Errorf("parsing the scheduler's metrics: %w", err)
	}
	return metrics{families}, nil
}

// get asks a scheduler, which serves a certificate of its own making.
func (l *Lab) get(port int, path string) (io.ReadCloser, error) {
	config := rest.CopyConfig(l.config)
	config.CAData, config.CAFile, config.Insecure = nil, "", true
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the scheduler: %w", err)
	}
	response, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d%s", port, path))
	if err != nil {
		return nil, fmt.Errorf("asking the scheduler for %s: %w", path, err)
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, fmt.Errorf("asking the scheduler for %s: %s", path, response.Status)
	}
	return response.Body, nil
}

// attempts returns how long the scheduling attempts took that placed a pod.
func (m metrics) attempts() testutil.HistogramVec {
	var found testutil.HistogramVec
	for _, metric := range m.families["scheduler_scheduling_attempt_duration_seconds"].GetMetric() {
		if testutil.LabelsMatch(metric, map[string]string{"result": "scheduled"}) {
			found = append(found, &testutil.Histogram{Histogram: metric.GetHistogram()})
		}
	}
	return found
}

// writes counts the requests that changed something, but for those of leader election.
func (m metrics) writes() float64 {
	var sum float64
	for _, metric := range m.families["rest_client_requests_total"].GetMetric() {
		for _, label := range metric.GetLabel() {
			if label.GetName() == "method" && (label.GetValue() == http.MethodPost || label.GetValue() == http.MethodPatch) {
				sum += metric.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// unschedulable counts the attempts that found no node.
func (m metrics) unschedulable() int {
	var sum float64
	for _, metric := range m.families["scheduler_schedule_attempts_total"].GetMetric() {
		if testutil.LabelsMatch(metric, map[string]string{"result": "unschedulable"}) {
			sum += metric.GetCounter().GetValue()
		}
	}
	return int(sum)
}

// flushed counts the pods that were tried again since no event had done that for minutes.
func (m metrics) flushed() int {
	var sum float64
	for _, metric := range m.families["scheduler_queue_incoming_pods_total"].GetMetric() {
		if testutil.LabelsMatch(metric, map[string]string{"event": "UnschedulableTimeout"}) {
			sum += metric.GetCounter().GetValue()
		}
	}
	return int(sum)
}

// quantile returns a quantile as a duration, 0 where nothing was counted.
func quantile(vec testutil.HistogramVec, q float64) time.Duration {
	if vec.GetAggregatedSampleCount() == 0 {
		return 0
	}
	return time.Duration(vec.Quantile(q) * float64(time.Second))
}
