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

// Past is how busy GPUs were in steps of time, in percent: each at the busiest moment of a step, or on average, as it was
// read. A step in which nothing was measured, or what no GPU can be, is [Unknown].
type Past struct {
	// End is when the last step ends, and Step how long each is.
	End  time.Time
	Step time.Duration

	steps   int
	byUUID  map[string][]float64
	byPlace map[place][]float64
	// named are the places of which series say whose they are.
	named map[place]bool
}

// Unknown is the value of a step of which nothing is known, or nothing that can be.
const Unknown = -1

// NewPast returns a past of which nothing is known.
func NewPast(end time.Time, step time.Duration, steps int) *Past {
	return &Past{End: end, Step: step, steps: steps, byUUID: map[string][]float64{}, byPlace: map[place][]float64{}, named: map[place]bool{}}
}

// Of returns the steps of a GPU, the oldest first: those of its UUID, or else of its place on a node; nil where nothing was
// measured. What is measured in its place of another UUID is not its own: drivers number the cards of a node anew. A card of which no
// UUID is known has its node and index for one.
func (p *Past) Of(uuid, node string, index int) []float64 {
	if steps := p.byUUID[uuid]; steps != nil && uuid != "" {
		return steps
	}
	at := place{node, index}
	if uuid != "" && uuid != node+"-"+strconv.Itoa(index) && p.named[at] {
		return nil
	}
	return p.byPlace[at]
}

// Length is how long the past is that was asked for.
func (p *Past) Length() time.Duration { return time.Duration(p.steps) * p.Step }

// Before puts an earlier past in front of this one, of which the steps are as long.
func (p *Past) Before(earlier *Past) {
	for uuid, steps := range p.byUUID {
		p.byUUID[uuid] = append(padded(earlier.byUUID[uuid], earlier.steps), steps...)
	}
	for at, steps := range p.byPlace {
		p.byPlace[at] = append(padded(earlier.byPlace[at], earlier.steps), steps...)
		p.named[at] = p.named[at] || earlier.named[at]
	}
	p.steps += earlier.steps
}

func padded(steps []float64, count int) []float64 {
	out := make([]float64, 0, 2*count)
	if steps != nil {
		return append(out, steps...)
	}
	for range count {
		out = append(out, Unknown)
	}
	return out
}

// ReadPast reads how busy all GPUs were until a time. An answer with warnings is none: what it lacks might be what counts.
//
// A step is known where it was measured in it as often as it is elsewhere, but once: where two measurements in a row are
// missing, a GPU may have been busy, and that may be at the border of two steps.
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
		out.add(series, asked.Start, func(a, b float64) float64 { return max(a, believed(b)) })
	}
	for _, series := range counts {
		counted.add(series, asked.Start, func(a, b float64) float64 { return max(a, 0) + b })
	}
	usual := counted.usual()
	for uuid, values := range out.byUUID {
		forget(values, counted.byUUID[uuid], usual)
	}
	for at, values := range out.byPlace {
		forget(values, counted.byPlace[at], usual)
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

// believed is a load, more than all of a GPU where it is none: what is said of that step is not to be believed.
func believed(v float64) float64 {
	if math.IsNaN(v) || v < 0 || v > 100 {
		return math.Inf(1)
	}
	return v
}

// usual is how often was measured in a step, of half of all that were measured in or more.
func (p *Past) usual() float64 {
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
	if len(all) == 0 { // an exporter that tells places alone
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

// forget makes the steps unknown in which too little was measured. The step after one is looked at with it.
func forget(values, counts []float64, usual float64) {
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

// add adds a series, and joins what is said more than once of a step of a GPU, as before and after its exporter was started
// again.
func (p *Past) add(series *model.SampleStream, start time.Time, join func(before, next float64) float64) {
	uuid, at := string(series.Metric[labelUUID]), placeOf(series.Metric)
	put := func(steps []float64) []float64 {
		if steps == nil {
			steps = padded(nil, p.steps)
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
	p.byPlace[at] = put(p.byPlace[at]) // another card may have been there before
}
