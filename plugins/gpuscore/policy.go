package gpuscore

import (
	"maps"
	"slices"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
)

// policy is how nodes are scored: the flattened arguments. It never changes; a reload creates another one.
type policy struct {
	// generation counts the policies of this process: 0 for the arguments in the configuration.
	generation int64
	weights    weights
	strategy   configv1.Strategy
	byJobType  map[string]configv1.Strategy
	target     band
	// keepWhole is how many nodes to keep whole, per thousand worth keeping.
	keepWhole  int64
	compatible map[string][]string
}

// newPolicy flattens complete and valid arguments.
func newPolicy(args *configv1.GPUScoreArgs, generation int64) *policy {
	const percent = fullShare / 100
	p := &policy{
		generation: generation,
		weights: weights{
			utilization: int64(*args.Weights.Utilization),
			typeMatch:   int64(*args.Weights.TypeMatch),
			topology:    int64(*args.Weights.Topology),
		},
		strategy:   args.Strategy,
		byJobType:  make(map[string]configv1.Strategy, len(args.StrategyByJobType)),
		target:     band{low: int64(*args.TargetBand.Low) * percent, high: int64(*args.TargetBand.High) * percent},
		keepWhole:  int64(*args.KeepWholePerMille),
		compatible: make(map[string][]string, len(args.CompatibleTypes)),
	}
	for _, entry := range args.StrategyByJobType {
		p.byJobType[entry.JobType] = entry.Strategy
	}
	for _, entry := range args.CompatibleTypes {
		p.compatible[entry.Type] = entry.Accepts
	}
	return p
}

// strategyFor returns the strategy for pods of a type of job, "" for pods of none.
func (p *policy) strategyFor(jobType string) configv1.Strategy {
	if strategy, ok := p.byJobType[jobType]; ok {
		return strategy
	}
	return p.strategy
}

// usesForecasts reports whether pods of some job type are placed by a forecast.
func (p *policy) usesForecasts() bool {
	return p.strategy == configv1.LeastFragmentation || slices.Contains(slices.Collect(maps.Values(p.byJobType)), configv1.LeastFragmentation)
}
