package v1

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"g8s.host/gpu-scheduler/pkg/safeyaml"
)

// policyDecoder refuses unknown and repeated fields, as kube-scheduler does in its configuration.
var policyDecoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(SchemeGroupVersion, &GPUScoreArgs{})
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}()

// ParseScorePolicy reads the content of GPUScore's policyFile: the arguments of GPUScore as they stand in the
// scheduler's configuration, policyFile excepted, under their own apiVersion and kind:
//
//	apiVersion: kubescheduler.config.k8s.io/v1
//	kind: GPUScoreArgs
//	weights: {utilization: 40, typeMatch: 30, topology: 30}
//
// What is left out has its default. An error names the path and the value of all that is wrong.
func ParseScorePolicy(data []byte) (*GPUScoreArgs, error) {
	if err := safeyaml.CheckAliases(data, safeyaml.Configuration); err != nil {
		return nil, fmt.Errorf("parsing a scoring policy: %w", err)
	}
	obj, _, err := policyDecoder.Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("parsing a scoring policy: %w", err)
	}
	args := obj.(*GPUScoreArgs) // the one type that the decoder knows
	args.SetDefaults()
	errs := args.Validate(nil)
	if args.PolicyFile != "" {
		errs = append(errs, field.Forbidden(field.NewPath("policyFile"), "a policy cannot name another file"))
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("checking a scoring policy: %w", errs.ToAggregate())
	}
	return args, nil
}
