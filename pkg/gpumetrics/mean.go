package gpumetrics

import (
	"context"
	"fmt"
	"strings"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
)

// ReadMeans reads the mean load of all GPUs in each step until an end. Steps without measurements, or with impossible values, are [Unknown]. An
// answer with warnings is an error, because it may be incomplete.
//
// Prometheus joins the series of a GPU and takes the maximum: a restarted exporter, or one that labels the pod on a GPU, starts new series. So an
// answer has some hundred bytes per GPU, and some tens of bytes per step.
func (c *Client) ReadMeans(ctx context.Context, end time.Time, step time.Duration, steps int) (*Past, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	asked := promv1.Range{Start: end.Add(-time.Duration(steps-1) * step), End: end, Step: step}
	matrix, err := c.queryRange(ctx, meansQuery(step), asked)
	if err != nil {
		return nil, err
	}
	out := NewPast(end, step, steps)
	for _, series := range matrix {
		out.addSeries(series, asked.Start, func(before, next float64) float64 { return max(before, plausibleLoad(next)) })
	}
	for _, values := range out.byUUID {
		forgetImpossible(values)
	}
	for _, values := range out.byPlace {
		forgetImpossible(values)
	}
	return out, nil
}

func meansQuery(step time.Duration) string {
	labels := []string{labelUUID, labelIndex, labelInstance}
	for _, label := range nodeLabels {
		labels = append(labels, string(label))
	}
	return fmt.Sprintf("max by (%s) (%s)", strings.Join(labels, ", "), overTime("avg_over_time", step))
}

// overTime returns a function over the load of each GPU in a step.
func overTime(function string, step time.Duration) string {
	return fmt.Sprintf("%s(%s[%ds])", function, MetricUtilization, int(step.Seconds()))
}

// forgetImpossible marks steps with a load above 100 % as unknown.
func forgetImpossible(values []float64) {
	for i, v := range values {
		if v > 100 {
			values[i] = Unknown
		}
	}
}
