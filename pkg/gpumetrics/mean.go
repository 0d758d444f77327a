package gpumetrics

import (
	"context"
	"fmt"
	"strings"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
)

// ReadMeans reads how busy all GPUs were on average in each step of time until an end. Steps in which nothing was measured,
// or what no GPU can be, are [Unknown]. An answer with warnings is none: it may lack what others have.
//
// The series of a card are joined where they are kept, the busiest of them: an exporter that is started again, or that names
// the pod on a card, begins new ones. So an answer is some hundred bytes a card, and some tens of bytes for each step.
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
		out.add(series, asked.Start, func(before, next float64) float64 { return max(before, believed(next)) })
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

// overTime is a function over the load of each GPU in a step of time.
func overTime(function string, step time.Duration) string {
	return fmt.Sprintf("%s(%s[%ds])", function, MetricUtilization, int(step.Seconds()))
}

// forgetImpossible makes the steps unknown in which a GPU is said to have been more than busy.
func forgetImpossible(values []float64) {
	for i, v := range values {
		if v > 100 {
			values[i] = Unknown
		}
	}
}
