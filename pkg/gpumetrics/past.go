package gpumetrics

import (
	"context"
	"math"
	"slices"
	"strconv"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Past is the load of GPUs in steps of time, in percent: the maximum or the mean of a step, depending on the query. A step without measurements, or
// with impossible values, is [Unknown].
type Past struct {
	// End is the end of the last step, and Step the length of each.
	End  time.Time
	Step time.Duration

	steps   int
	byUUID  map[string][]float64
	byPlace map[gpuPlace][]float64
	// named are the node indexes whose series have a UUID.
	named map[gpuPlace]bool
}

// Unknown is the value of a step without a valid measurement.
const Unknown = -1

// NewPast returns an empty past.
func NewPast(end time.Time, step time.Duration, steps int) *Past {
	return &Past{End: end, Step: step, steps: steps, byUUID: map[string][]float64{}, byPlace: map[gpuPlace][]float64{}, named: map[gpuPlace]bool{}}
}

// StepsFor returns the steps of a GPU, the oldest first: by its UUID, or else by its index on a node; nil if nothing was measured. A series of another UUID
// at that index does not count, because drivers renumber the GPUs of a node. A GPU without a known UUID has its node and index as UUID.
func (p *Past) StepsFor(uuid, node string, index int) []float64 {
	if steps := p.byUUID[uuid]; steps != nil && uuid != "" {
		return steps
	}
	at := gpuPlace{node, index}
	if uuid != "" && uuid != node+"-"+strconv.Itoa(index) && p.named[at] {
		return nil
	}
	return p.byPlace[at]
}

// Length returns the length of the requested past.
func (p *Past) Length() time.Duration { return time.Duration(p.steps) * p.Step }

// Prepend prepends an earlier past with the same step length.
func (p *Past) Prepend(earlier *Past) {
	for uuid, steps := range p.byUUID {
		p.byUUID[uuid] = append(padSteps(earlier.byUUID[uuid], earlier.steps), steps...)
	}
	for at, steps := range p.byPlace {
		p.byPlace[at] = append(padSteps(earlier.byPlace[at], earlier.steps), steps...)
		p.named[at] = p.named[at] || earlier.named[at]
	}
	p.steps += earlier.steps
}

func padSteps(steps []float64, count int) []float64 {
	out := make([]float64, 0, 2*count)
	if steps != nil {
		return append(out, steps...)
	}
	for range count {
		out = append(out, Unknown)
	}
	return out
}

// ReadPast reads the maximum load of all GPUs in each step until a time. An answer with warnings is an error, because the missing part may be
// decisive.
//
// A step is known if it has the usual number of measurements, minus one at most: where two consecutive measurements are missing, a GPU may have been
// busy, also at the border of two steps.
func (c *Client) ReadPast(ctx context.Context, end time.Time, step time.Duration, steps int) (*Past, error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	asked := promv1.Range{Start: end.Add(-time.Duration(steps-1) * step), End: end, Step: step}
	values, err := c.queryRange(ctx, overTime("max_over_time", step), asked)
	if err != nil {
		return nil, err
	}
	counts, err := c.queryRange(ctx, overTime("count_over_time", step), asked)
	if err != nil {
		return nil, err
	}
	out, counted := NewPast(end, step, steps), NewPast(end, step, steps)
	for _, series := range values {
		out.addSeries(series, asked.Start, func(a, b float64) float64 { return max(a, plausibleLoad(b)) })
	}
	for _, series := range counts {
		counted.addSeries(series, asked.Start, func(a, b float64) float64 { return max(a, 0) + b })
	}
	usual := counted.usualCount()
	for uuid, values := range out.byUUID {
		dropUndersampled(values, counted.byUUID[uuid], usual)
	}
	for at, values := range out.byPlace {
		dropUndersampled(values, counted.byPlace[at], usual)
	}
	return out, nil
}

func (c *Client) queryRange(ctx context.Context, query string, asked promv1.Range) (model.Matrix, error) {
	value, warnings, err := c.api.QueryRange(ctx, query, asked)
	if err != nil {
		return nil, phrase.Errorf("reading %s from Prometheus: %w", MetricUtilization, err)
	}
	if len(warnings) > 0 {
		return nil, phrase.Errorf("reading %s from Prometheus: the answer may lack something: %s", MetricUtilization, warnings[0])
	}
	matrix, ok := value.(model.Matrix)
	if !ok {
		return nil, phrase.Errorf("reading %s from Prometheus: the answer is a %s, want a matrix", MetricUtilization, value.Type())
	}
	return matrix, nil
}

// plausibleLoad returns a load, or infinity for an impossible one: that step must not be trusted.
func plausibleLoad(v float64) float64 {
	if math.IsNaN(v) || v < 0 || v > 100 {
		return math.Inf(1)
	}
	return v
}

// usualCount returns the usual number of measurements in a step: the median of all steps with measurements.
func (p *Past) usualCount() float64 {
	var all []float64
	note := func(counts []float64) {
		for _, count := range counts {
			if count > 0 {
				all = append(all, count)
			}
		}
	}
	for _, counts := range p.byUUID {
		note(counts)
	}
	if len(all) == 0 { // an exporter without UUIDs
		for _, counts := range p.byPlace {
			note(counts)
		}
	}
	if len(all) == 0 {
		return 1
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// dropUndersampled marks steps with too few measurements as unknown, together with the border to the next step.
func dropUndersampled(values, counts []float64, usual float64) {
	if len(counts) != len(values) {
		counts = make([]float64, len(values))
	}
	for i := range values {
		alone := counts[i] >= usual-1 && counts[i] > 0
		if !alone || i > 0 && !(counts[i-1]+counts[i] >= 2*usual-1) {
			values[i] = Unknown
		}
	}
}

// addSeries adds a series, and joins several values of a step of a GPU, as before and after a restart of its exporter.
func (p *Past) addSeries(series *model.SampleStream, start time.Time, join func(before, next float64) float64) {
	uuid, at := string(series.Metric[labelUUID]), placeOf(series.Metric)
	put := func(steps []float64) []float64 {
		if steps == nil {
			steps = padSteps(nil, p.steps)
		}
		for _, pair := range series.Values {
			i := int(math.Round(float64(pair.Timestamp.Time().Sub(start)) / float64(p.Step)))
			if i >= 0 && i < p.steps {
				steps[i] = join(steps[i], float64(pair.Value))
			}
		}
		return steps
	}
	if uuid != "" {
		p.byUUID[uuid] = put(p.byUUID[uuid])
		p.named[at] = true
	}
	p.byPlace[at] = put(p.byPlace[at]) // another GPU may have had this index before
}
