package queueing

import (
	"math"
	"slices"
	"time"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// shortest is the bound under which a job's runtime does not count in its slowdown, so that jobs of a second do not
// decide the mean (Feitelson et al., Theory and Practice in Parallel Job Scheduling, 1997).
const shortest = 10 * time.Second

// longWait is from when on a job counts as starved.
const longWait = 24 * time.Hour

// Size is a range of the GPUs that jobs ask.
type Size struct {
	Name     string
	Min, Max int
}

// Sizes are the classes that delays are told by. The last takes two of them together.
var Sizes = []Size{
	{"1", 1, 1}, {"2-7", 2, trace.GPUsPerNode - 1}, {"8", trace.GPUsPerNode, trace.GPUsPerNode},
	{">8", trace.GPUsPerNode + 1, math.MaxInt}, {">=8", trace.GPUsPerNode, math.MaxInt},
}

// Spread sums up times, in hours. P50 and P99 are the nearest rank.
type Spread struct {
	Jobs int     `json:"jobs"`
	Avg  float64 `json:"avg"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// Metrics of a replay. Times are in hours and of the jobs that started.
type Metrics struct {
	// Delay is from submission to the start of a job's last pod.
	Delay Spread `json:"delay"`
	// DelayBySize is the same by the name of a size.
	DelayBySize map[string]Spread `json:"delayBySize"`
	// Completion is from submission to the end of a job (JCT).
	Completion Spread `json:"completion"`
	// Slowdown is the mean of completion by runtime, where neither counts as less than 10 s.
	Slowdown float64 `json:"slowdown"`
	// BusyPercent of the cluster's GPU time from the first to the last submission ran jobs.
	BusyPercent float64 `json:"busyPercent"`
	// HeldGPUHours were held in that time by pods while others of their gang waited.
	HeldGPUHours float64 `json:"heldGPUHours"`
	HeldPercent  float64 `json:"heldPercent"`
	// Deadlocks is how often nothing ran or could start while incomplete gangs held GPUs.
	Deadlocks int `json:"deadlocks"`
	// NeverStarted are the jobs that still waited when nothing could happen any more.
	NeverStarted int `json:"neverStarted"`
	// WaitedADay is how many jobs waited for more than 24 h.
	WaitedADay int `json:"waitedADay"`
	// Fairness is Jain's index over the virtual clusters, 1 where all are served alike and 1/n where one gets it all. What
	// is compared is the share of the time in the system that a virtual cluster's jobs ran, weighted by GPUs.
	Fairness float64 `json:"fairness"`
	// GangsAcrossRacks is how many jobs of several pods had them in more than one rack.
	GangsAcrossRacks int `json:"gangsAcrossRacks"`
}

// Measure sums up a replay.
func Measure(result *Result) Metrics {
	started := make([]Outcome, 0, len(result.Outcomes))
	for _, o := range result.Outcomes {
		if o.Started {
			started = append(started, o)
		}
	}
	t := result.Totals
	m := Metrics{
		Delay:        spread(started, Outcome.Delay),
		DelayBySize:  make(map[string]Spread, len(Sizes)),
		Completion:   spread(started, Outcome.Completion),
		Slowdown:     slowdown(started),
		BusyPercent:  percent(t.Busy, t.Capacity),
		HeldGPUHours: float64(t.Held),
		HeldPercent:  percent(t.Held, t.Capacity),
		Deadlocks:    t.Deadlocks,
		NeverStarted: len(result.Outcomes) - len(started),
		Fairness:     jain(served(started)),

		WaitedADay:       count(started, func(o Outcome) bool { return o.Delay() > longWait }),
		GangsAcrossRacks: count(started, func(o Outcome) bool { return o.Racks > 1 }),
	}
	for _, size := range Sizes {
		m.DelayBySize[size.Name] = spread(ofSize(started, size), Outcome.Delay)
	}
	return m
}

func ofSize(outcomes []Outcome, size Size) []Outcome {
	return slices.DeleteFunc(slices.Clone(outcomes), func(o Outcome) bool {
		return o.Job.GPUs < size.Min || o.Job.GPUs > size.Max
	})
}

func spread(outcomes []Outcome, of func(Outcome) time.Duration) Spread {
	if len(outcomes) == 0 {
		return Spread{}
	}
	hours := make([]float64, len(outcomes))
	sum := 0.0
	for i, o := range outcomes {
		hours[i] = of(o).Hours()
		sum += hours[i]
	}
	slices.Sort(hours)
	rank := func(percent int) float64 { return hours[(len(hours)*percent+99)/100-1] }
	return Spread{Jobs: len(hours), Avg: sum / float64(len(hours)), P50: rank(50), P99: rank(99), Max: rank(100)}
}

func slowdown(outcomes []Outcome) float64 {
	sum := 0.0
	for _, o := range outcomes {
		sum += max(o.Completion(), shortest).Hours() / max(o.Job.Runtime, shortest).Hours()
	}
	return sum / float64(max(len(outcomes), 1))
}

// served is, for each virtual cluster, the part of its jobs' GPU time from submission to end in which they ran.
func served(outcomes []Outcome) []float64 {
	type times struct{ ran, total GPUHours }
	byVC := map[string]times{}
	for _, o := range outcomes {
		t := byVC[o.Job.VC]
		t.ran += gpuTime(o.Job.GPUs, o.Job.Runtime)
		t.total += gpuTime(o.Job.GPUs, o.Completion())
		byVC[o.Job.VC] = t
	}
	var shares []float64
	for _, t := range byVC {
		if t.total > 0 {
			shares = append(shares, float64(t.ran/t.total))
		}
	}
	slices.Sort(shares) // sums of floats depend on their order
	return shares
}

// jain is Jain's fairness index, (Σx)² / (n Σx²); 1 where there is nothing to be unfair about.
func jain(shares []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(len(shares)) * squares)
}

func percent(part, whole GPUHours) float64 {
	if whole == 0 {
		return 0
	}
	return float64(100 * part / whole)
}

func count(outcomes []Outcome, is func(Outcome) bool) int {
	n := 0
	for _, o := range outcomes {
		if is(o) {
			n++
		}
	}
	return n
}
