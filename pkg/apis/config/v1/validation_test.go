package v1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// problem is what a validation error must say: where, what kind, and the value given.
type problem struct {
	Field string
	Type  field.ErrorType
	Value any
}

func problems(errs field.ErrorList) []problem {
	var found []problem
	for _, err := range errs {
		found = append(found, problem{Field: err.Field, Type: err.Type, Value: err.BadValue})
	}
	return found
}

func TestGPUFilterArgsValidate(t *testing.T) {
	tests := map[string]struct {
		types []string
		args  GPUFilterArgs
		want  []problem
	}{
		"no type admits every type": {},
		"types of the classic configuration": {
			types: []string{"nvidia-tesla-v100", "nvidia-rtx-3080"},
		},
		"an empty type would match nodes that have none": {
			types: []string{"T4", ""},
			want:  []problem{{"args.gpuTypes[1]", field.ErrorTypeRequired, ""}},
		},
		"a type twice is a slip": {
			types: []string{"T4", "T4"},
			want:  []problem{{"args.gpuTypes[1]", field.ErrorTypeDuplicate, "T4"}},
		},
		"a type that can be no label value matches no node": {
			types: []string{"A100 80G"},
			want:  []problem{{"args.gpuTypes[0]", field.ErrorTypeInvalid, "A100 80G"}},
		},
		"a ledger, and by whom it is signed": {args: GPUFilterArgs{PromiseLedger: "https://gpu-ledger.kube-system.svc", PromiseLedgerCA: "/etc/ca.crt"}},
		"a ledger that is not encrypted": {
			args: GPUFilterArgs{PromiseLedger: "http://gpu-ledger"},
			want: []problem{{"args.promiseLedger", field.ErrorTypeInvalid, "http://gpu-ledger"}},
		},
		"a ledger that is nowhere": {
			args: GPUFilterArgs{PromiseLedger: "gpu-ledger"},
			want: []problem{{"args.promiseLedger", field.ErrorTypeInvalid, "gpu-ledger"}},
		},
		"a signature of no ledger": {
			args: GPUFilterArgs{PromiseLedgerCA: "/etc/ca.crt"},
			want: []problem{{"args.promiseLedger", field.ErrorTypeRequired, ""}},
		},
		"a file that depends on where the scheduler starts": {
			args: GPUFilterArgs{PromiseLedger: "https://gpu-ledger", PromiseLedgerCA: "ca.crt"},
			want: []problem{{"args.promiseLedgerCA", field.ErrorTypeInvalid, "ca.crt"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			args := tc.args
			args.GPUTypes = tc.types
			got := problems(args.Validate(field.NewPath("args")))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGPUScoreArgsValidate(t *testing.T) {
	tests := map[string]struct {
		args GPUScoreArgs
		want []problem
	}{
		"defaults are valid": {},
		"weights need not sum to 100": {
			args: GPUScoreArgs{Weights: &GPUScoreWeights{Utilization: ptr.To[int32](1), TypeMatch: ptr.To[int32](0)}},
		},
		"weights outside 0 to 100, all named at once": {
			args: GPUScoreArgs{Weights: &GPUScoreWeights{Utilization: ptr.To[int32](-1), Topology: ptr.To[int32](140)}},
			want: []problem{
				{"args.weights.utilization", field.ErrorTypeInvalid, int32(-1)},
				{"args.weights.topology", field.ErrorTypeInvalid, int32(140)},
			},
		},
		"weights that are all 0 would score nothing": {
			args: GPUScoreArgs{Weights: &GPUScoreWeights{
				Utilization: ptr.To[int32](0), TypeMatch: ptr.To[int32](0), Topology: ptr.To[int32](0),
			}},
			want: []problem{{"args.weights", field.ErrorTypeInvalid, "all 0"}},
		},
		"a strategy that does not exist": {
			args: GPUScoreArgs{Strategy: "pack"},
			want: []problem{{"args.strategy", field.ErrorTypeNotSupported, Strategy("pack")}},
		},
		"strategies by a type that no job has, twice, and without a strategy": {
			args: GPUScoreArgs{StrategyByJobType: []JobTypeStrategy{
				{JobType: "traning", Strategy: Pack}, {JobType: JobTypeInference, Strategy: Spread}, {JobType: JobTypeInference},
			}},
			want: []problem{
				{"args.strategyByJobType[0].jobType", field.ErrorTypeNotSupported, "traning"},
				{"args.strategyByJobType[2].jobType", field.ErrorTypeDuplicate, JobTypeInference},
				{"args.strategyByJobType[2].strategy", field.ErrorTypeNotSupported, Strategy("")},
			},
		},
		"a policy file whose place depends on the working directory": {
			args: GPUScoreArgs{PolicyFile: "policy.yaml"},
			want: []problem{{"args.policyFile", field.ErrorTypeInvalid, "policy.yaml"}},
		},
		"a band upside down": {
			args: GPUScoreArgs{TargetBand: &TargetBand{Low: ptr.To[int32](90)}},
			want: []problem{{"args.targetBand.low", field.ErrorTypeInvalid, int32(90)}},
		},
		"a band beyond all GPUs": {
			args: GPUScoreArgs{TargetBand: &TargetBand{High: ptr.To[int32](101)}},
			want: []problem{{"args.targetBand.high", field.ErrorTypeInvalid, int32(101)}},
		},
		"no nodes kept whole": {args: GPUScoreArgs{KeepWholePerMille: ptr.To[int32](0)}},
		"more nodes kept whole than anybody means": {
			args: GPUScoreArgs{KeepWholePerMille: ptr.To[int32](101)},
			want: []problem{{"args.keepWholePerMille", field.ErrorTypeInvalid, int32(101)}},
		},
		"fewer nodes kept whole than none": {
			args: GPUScoreArgs{KeepWholePerMille: ptr.To[int32](-1)},
			want: []problem{{"args.keepWholePerMille", field.ErrorTypeInvalid, int32(-1)}},
		},
		"compatible types without a type, without a stand-in, and twice": {
			args: GPUScoreArgs{CompatibleTypes: []CompatibleTypes{
				{Accepts: []string{"A"}}, {Type: "T4"}, {Type: "T4", Accepts: []string{"A", "A"}},
			}},
			want: []problem{
				{"args.compatibleTypes[0].type", field.ErrorTypeRequired, ""},
				{"args.compatibleTypes[1].accepts", field.ErrorTypeRequired, ""},
				{"args.compatibleTypes[2].type", field.ErrorTypeDuplicate, "T4"},
				{"args.compatibleTypes[2].accepts[1]", field.ErrorTypeDuplicate, "A"},
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.args.SetDefaults()
			got := problems(tc.args.Validate(field.NewPath("args")))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
