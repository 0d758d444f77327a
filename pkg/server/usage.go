package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	promapi "github.com/prometheus/client_golang/api"
	prometheus "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"g8s.host/gpu-scheduler/pkg/gpumetrics"
)

type usageInput struct {
	JobRef
	Metric string    `query:"metric" enum:"all,gpuUtilization,memoryUsage" default:"all"`
	Start  time.Time `query:"startTime" doc:"An hour before the end without it"`
	End    time.Time `query:"endTime" doc:"Now without it"`
	Step   string    `query:"step" doc:"The time between two samples, such as 30s; without it as fits 120 samples"`
}

// JobUsage is the GPU usage of a job. A series without samples is empty: an unmeasured value is not zero.
type JobUsage struct {
	JobID          string   `json:"jobId"`
	Namespace      string   `json:"namespace"`
	GPUUtilization []Sample `json:"gpuUtilization" doc:"The mean of the job's GPUs in percent"`
	MemoryUsage    []Sample `json:"memoryUsage" doc:"The memory used on all GPUs of the job, in MiB"`
}

// Sample is a value at a time.
type Sample struct {
	Timestamp time.Time `json:"timestamp"`
	Value     float64   `json:"value"`
}

type usageOutput struct{ Body JobUsage }

// Bounds of a query, which keep one caller from overloading Prometheus.
const (
	usageRange     = time.Hour
	maxUsageRange  = 31 * 24 * time.Hour
	defaultSamples = 120
	maxSamples     = 2000
	usageTimeout   = 20 * time.Second
	minUsageStep   = 5 * time.Second
	// maxUsageAnswer is far above the size of one series.
	maxUsageAnswer = 1 << 20
)

func (s *Server) usageRoutes() {
	registerRoute(s, route{method: http.MethodGet, path: Root + "/jobs/{jobId}/metrics", id: "getJobMetrics", tag: "jobs",
		summary: "How a job used its GPUs, from Prometheus",
		detail: "Asks the Prometheus that the server is configured with for what DCGM measured of the job's pods. " +
			"503 NotConfigured says that there is none.",
		fails: []int{http.StatusNotFound, http.StatusConflict, http.StatusBadGateway}}, s.getUsage)
}

func (s *Server) getUsage(ctx context.Context, in *usageInput) (*usageOutput, error) {
	window, err := in.queryRange(s.options.Now())
	if err != nil {
		return nil, err
	}
	job, err := s.readJob(ctx, in.JobRef)
	if err != nil {
		return nil, err
	}
	if s.options.Prometheus == "" {
		return nil, &refusal{status: http.StatusServiceUnavailable, code: "NotConfigured",
			text: "no Prometheus is configured: start gpuctl-server with --prometheus-url"}
	}
	pods := make([]string, len(job.Pods))
	for i := range job.Pods {
		pods[i] = regexp.QuoteMeta(job.Pods[i].Name)
	}
	out := &usageOutput{Body: JobUsage{
		JobID: job.Name, Namespace: job.Namespace, GPUUtilization: []Sample{}, MemoryUsage: []Sample{},
	}}
	if len(pods) == 0 {
		return out, nil
	}
	selector := fmt.Sprintf(`namespace=%q,pod=~%q`, job.Namespace, strings.Join(pods, "|"))
	if in.Metric != "memoryUsage" {
		if out.Body.GPUUtilization, err = s.querySamples(ctx, "avg", "DCGM_FI_DEV_GPU_UTIL", selector, window); err != nil {
			return nil, err
		}
	}
	if in.Metric != "gpuUtilization" {
		out.Body.MemoryUsage, err = s.querySamples(ctx, "sum", "DCGM_FI_DEV_FB_USED", selector, window)
	}
	return out, err
}

func (in *usageInput) queryRange(now time.Time) (prometheus.Range, error) {
	out := prometheus.Range{Start: in.Start, End: in.End}
	if out.End.IsZero() {
		out.End = now
	}
	if out.Start.IsZero() {
		out.Start = out.End.Add(-usageRange)
	}
	length := out.End.Sub(out.Start)
	if length <= 0 || length > maxUsageRange {
		return out, invalidErrorf("startTime must be before endTime, by %s at most", maxUsageRange)
	}
	out.Step = max(length/defaultSamples, minUsageStep)
	if in.Step != "" {
		step, err := time.ParseDuration(in.Step)
		if err != nil || step <= 0 {
			return out, invalidErrorf("step is %q, want a duration such as 30s", in.Step)
		}
		out.Step = step
	}
	if length/out.Step > maxSamples {
		return out, invalidErrorf("%d samples are too many, want at most %d: take a longer step", length/out.Step, maxSamples)
	}
	return out, nil
}

// querySamples queries Prometheus for one series of a job's pods. DCGM labels GPUs with their pod. Where Prometheus overwrites these labels with those of
// the scrape, which is its default, they are exported_pod and exported_namespace.
func (s *Server) querySamples(ctx context.Context, sum, metric, selector string, window prometheus.Range) ([]Sample, error) {
	leave, err := acquireSlot(ctx, s.budgets.querying, 1)
	if err != nil {
		return nil, err
	}
	defer leave()
	client, err := promapi.NewClient(promapi.Config{Address: s.options.Prometheus, Client: gpumetrics.HTTPClient(nil, maxUsageAnswer)})
	if err != nil {
		return nil, fmt.Errorf("connecting to Prometheus: %w", err)
	}
	exported := "exported_" + strings.Replace(selector, ",pod=", ",exported_pod=", 1)
	query := fmt.Sprintf("%s(%s{%s} or %s{%s})", sum, metric, exported, metric, selector)
	ctx, cancel := context.WithTimeout(ctx, usageTimeout)
	defer cancel()
	value, _, err := prometheus.NewAPI(client).QueryRange(ctx, query, window)
	if err != nil {
		s.options.Log.WarnContext(ctx, "Asking Prometheus failed", "requestId", requestID(ctx), "error", err)
		return nil, &refusal{status: http.StatusBadGateway, code: "BadGateway", text: prometheusFailure(err)}
	}
	matrix, ok := value.(model.Matrix)
	if !ok || len(matrix) == 0 {
		return []Sample{}, nil
	}
	out := make([]Sample, 0, len(matrix[0].Values))
	for _, pair := range matrix[0].Values {
		out = append(out, Sample{Timestamp: pair.Timestamp.Time().UTC(), Value: float64(pair.Value)})
	}
	return out, nil
}

// prometheusFailure describes a failed query without the address of Prometheus, which only the log contains.
func prometheusFailure(err error) string {
	const tell = ": tell the administrators, whose log has this requestId"
	var said *prometheus.Error
	switch {
	case errors.Is(err, gpumetrics.ErrTooLarge):
		return "Prometheus answers with more than one series can be" + tell
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("Prometheus does not answer within %s: try again later", usageTimeout)
	case errors.As(err, &said):
		return fmt.Sprintf("Prometheus refuses the question (%s)%s", said.Type, tell)
	}
	return "Prometheus cannot be reached" + tell
}
