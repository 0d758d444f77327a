package v1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Defaults of GPUScoreArgs. The weights and the band are those of the classic configuration.
const (
	DefaultUtilizationWeight int32 = 40
	DefaultTypeMatchWeight   int32 = 30
	DefaultTopologyWeight    int32 = 30

	DefaultStrategy = LeastFragmentation

	DefaultTargetBandLow  int32 = 60
	DefaultTargetBandHigh int32 = 80

	DefaultKeepWholePerMille int32 = 4
)

// DefaultPromiseHorizon is how far ahead starts are reserved.
const DefaultPromiseHorizon = 24 * time.Hour

// SetDefaults fills every field that has a default and was left out.
func (args *GPUFilterArgs) SetDefaults() {
	if args.PromiseHorizon == nil {
		args.PromiseHorizon = &metav1.Duration{Duration: DefaultPromiseHorizon}
	}
}

// EffectivePromiseHorizon is how far ahead starts are reserved, 0 if none are.
func (args *GPUFilterArgs) EffectivePromiseHorizon() time.Duration {
	if args.PromiseHorizon == nil {
		return DefaultPromiseHorizon
	}
	return args.PromiseHorizon.Duration
}

// DefaultStrategyByJobType is the default for each type of job: training leaves room for others, inference survives the loss of a node or rack,
// notebooks use whatever is left.
func DefaultStrategyByJobType() []JobTypeStrategy {
	return []JobTypeStrategy{
		{JobType: JobTypeTraining, Strategy: LeastFragmentation},
		{JobType: JobTypeInference, Strategy: SpreadReplicas},
		{JobType: JobTypeNotebook, Strategy: FillHoles},
	}
}

// SetDefaults fills every field that has a default and was left out. A weight given as 0 stays 0.
func (args *GPUScoreArgs) SetDefaults() {
	if args.Weights == nil {
		args.Weights = &GPUScoreWeights{}
	}
	setDefault(&args.Weights.Utilization, DefaultUtilizationWeight)
	setDefault(&args.Weights.TypeMatch, DefaultTypeMatchWeight)
	setDefault(&args.Weights.Topology, DefaultTopologyWeight)
	if args.Strategy == "" {
		args.Strategy = DefaultStrategy
	}
	if args.StrategyByJobType == nil {
		args.StrategyByJobType = DefaultStrategyByJobType()
	}
	if args.TargetBand == nil {
		args.TargetBand = &TargetBand{}
	}
	setDefault(&args.TargetBand.Low, DefaultTargetBandLow)
	setDefault(&args.TargetBand.High, DefaultTargetBandHigh)
	setDefault(&args.KeepWholePerMille, DefaultKeepWholePerMille)
}

func setDefault(field **int32, value int32) {
	if *field == nil {
		*field = ptr.To(value)
	}
}
