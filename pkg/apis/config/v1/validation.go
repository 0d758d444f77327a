package v1

import (
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	strategies = []Strategy{LeastFragmentation, Pack, Spread, TargetBandStrategy, SpreadReplicas, FillHoles}
	jobTypes   = []string{JobTypeTraining, JobTypeInference, JobTypeNotebook, JobTypeCompute}
)

// Validate checks the arguments. Each error holds the path below path, and the value that is wrong.
func (args *GPUFilterArgs) Validate(path *field.Path) field.ErrorList {
	errs := validateTypes(path.Child("gpuTypes"), args.GPUTypes)
	if horizon := args.EffectivePromiseHorizon(); horizon < 0 || horizon > maxHorizon {
		errs = append(errs, field.Invalid(path.Child("promiseHorizon"), horizon.String(), "must be from 0s to "+maxHorizon.String()))
	}
	return append(errs, args.validateLedger(path)...)
}

func (args *GPUFilterArgs) validateLedger(path *field.Path) (errs field.ErrorList) {
	address, authority := path.Child("promiseLedger"), path.Child("promiseLedgerCA")
	if parsed, err := url.Parse(args.PromiseLedger); args.PromiseLedger != "" && (err != nil || parsed.Scheme != "https" || parsed.Host == "") {
		errs = append(errs, field.Invalid(address, args.PromiseLedger, "must be an address such as https://gpu-ledger.kube-system.svc"))
	}
	switch {
	case args.PromiseLedgerCA == "":
	case args.PromiseLedger == "":
		errs = append(errs, field.Required(address, "promiseLedgerCA is of no use without it"))
	case !filepath.IsAbs(args.PromiseLedgerCA):
		errs = append(errs, field.Invalid(authority, args.PromiseLedgerCA, "must be an absolute path"))
	}
	return errs
}

// maxHorizon is a month: an earlier reservation of a start is not useful.
const maxHorizon = 30 * 24 * time.Hour

// Validate checks the arguments after [GPUScoreArgs.SetDefaults]. Each error holds the path below path,
// and the value that is wrong.
func (args *GPUScoreArgs) Validate(path *field.Path) field.ErrorList {
	errs := validateWeights(path.Child("weights"), args.Weights)
	errs = append(errs, validateStrategy(path.Child("strategy"), args.Strategy)...)
	errs = append(errs, validateByJobType(path.Child("strategyByJobType"), args.StrategyByJobType)...)
	errs = append(errs, validateBand(path.Child("targetBand"), args.TargetBand)...)
	errs = append(errs, validate0To100(path.Child("keepWholePerMille"), *args.KeepWholePerMille)...)
	errs = append(errs, validateCompatible(path.Child("compatibleTypes"), args.CompatibleTypes)...)
	if args.PolicyFile != "" && !filepath.IsAbs(args.PolicyFile) {
		errs = append(errs, field.Invalid(path.Child("policyFile"), args.PolicyFile, "must be an absolute path"))
	}
	return errs
}

func validateStrategy(path *field.Path, strategy Strategy) field.ErrorList {
	if !slices.Contains(strategies, strategy) {
		return field.ErrorList{field.NotSupported(path, strategy, strategies)}
	}
	return nil
}

func validateByJobType(path *field.Path, list []JobTypeStrategy) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, entry := range list {
		at := path.Index(i)
		switch {
		case !slices.Contains(jobTypes, entry.JobType):
			errs = append(errs, field.NotSupported(at.Child("jobType"), entry.JobType, jobTypes))
		case seen.Has(entry.JobType):
			errs = append(errs, field.Duplicate(at.Child("jobType"), entry.JobType))
		}
		seen.Insert(entry.JobType)
		errs = append(errs, validateStrategy(at.Child("strategy"), entry.Strategy)...)
	}
	return errs
}

func validateWeights(path *field.Path, weights *GPUScoreWeights) field.ErrorList {
	parts := []struct {
		name  string
		value *int32
	}{
		{"utilization", weights.Utilization}, {"typeMatch", weights.TypeMatch}, {"topology", weights.Topology},
	}
	var errs field.ErrorList
	positive := false
	for _, part := range parts {
		errs = append(errs, validate0To100(path.Child(part.name), *part.value)...)
		positive = positive || *part.value > 0
	}
	if len(errs) == 0 && !positive {
		errs = append(errs, field.Invalid(path, "all 0", "at least one weight must be positive"))
	}
	return errs
}

func validateBand(path *field.Path, band *TargetBand) field.ErrorList {
	errs := validate0To100(path.Child("low"), *band.Low)
	errs = append(errs, validate0To100(path.Child("high"), *band.High)...)
	if len(errs) == 0 && *band.Low > *band.High {
		errs = append(errs, field.Invalid(path.Child("low"), *band.Low, "must not be above targetBand.high"))
	}
	return errs
}

func validate0To100(path *field.Path, value int32) field.ErrorList {
	if value < 0 || value > 100 {
		return field.ErrorList{field.Invalid(path, value, "must be from 0 to 100")}
	}
	return nil
}

func validateCompatible(path *field.Path, list []CompatibleTypes) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, entry := range list {
		at := path.Index(i)
		errs = append(errs, validateType(at.Child("type"), entry.Type, seen)...)
		if len(entry.Accepts) == 0 {
			errs = append(errs, field.Required(at.Child("accepts"), "name at least one type"))
		}
		errs = append(errs, validateTypes(at.Child("accepts"), entry.Accepts)...)
	}
	return errs
}

func validateTypes(path *field.Path, types []string) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, gpuType := range types {
		errs = append(errs, validateType(path.Index(i), gpuType, seen)...)
	}
	return errs
}

// validateType checks that a type can be the value of a node label, and is not among those seen before.
func validateType(path *field.Path, gpuType string, seen sets.Set[string]) field.ErrorList {
	if gpuType == "" {
		return field.ErrorList{field.Required(path, "a GPU type is the value of a node label")}
	}
	if problems := validation.IsValidLabelValue(gpuType); len(problems) > 0 {
		return field.ErrorList{field.Invalid(path, gpuType, problems[0])}
	}
	if seen.Has(gpuType) {
		return field.ErrorList{field.Duplicate(path, gpuType)}
	}
	seen.Insert(gpuType)
	return nil
}
