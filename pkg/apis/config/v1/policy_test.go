package v1

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

const policyHeader = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: GPUScoreArgs\n"

func TestParseScorePolicy(t *testing.T) {
	tests := map[string]struct {
		data string
		want GPUScoreArgs
	}{
		"nothing said is every default": {data: policyHeader},
		"what is left out has its default": {
			data: policyHeader + "weights: {utilization: 90}\nstrategy: TargetBand\n",
			want: GPUScoreArgs{Weights: &GPUScoreWeights{Utilization: ptr.To[int32](90)}, Strategy: TargetBandStrategy},
		},
		"an empty list of job types turns them off": {
			data: policyHeader + "strategyByJobType: []\n",
			want: GPUScoreArgs{StrategyByJobType: []JobTypeStrategy{}},
		},
		"a list of job types replaces the default list": {
			data: policyHeader + "strategyByJobType: [{jobType: inference, strategy: Spread}]\n",
			want: GPUScoreArgs{StrategyByJobType: []JobTypeStrategy{{JobType: JobTypeInference, Strategy: Spread}}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseScorePolicy([]byte(tc.data))
			if err != nil {
				t.Fatal(err)
			}
			tc.want.SetDefaults()
			tc.want.SetGroupVersionKind(SchemeGroupVersion.WithKind("GPUScoreArgs"))
			if diff := cmp.Diff(&tc.want, got); diff != "" {
				t.Errorf("policy (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseScorePolicyRefuses(t *testing.T) {
	tests := map[string]struct{ data, want string }{
		"an empty file":          {"", "'Kind' is missing"},
		"no kind":                {"weights: {utilization: 40}\n", "'Kind' is missing"},
		"another kind":           {"apiVersion: v1\nkind: ConfigMap\n", `no kind "ConfigMap"`},
		"what is no YAML":        {policyHeader + "weights: {", "yaml"},
		"a misspelt weight":      {policyHeader + "weights: {utilisation: 40}\n", `unknown field "weights.utilisation"`},
		"a field twice":          {policyHeader + "strategy: Pack\nstrategy: Spread\n", `"strategy" already set`},
		"a weight out of range":  {policyHeader + "weights: {topology: 140}\n", "weights.topology: Invalid value: 140: must be from 0 to 100"},
		"a strategy of a type":   {policyHeader + "strategyByJobType: [{jobType: training, strategy: pack}]\n", `strategyByJobType[0].strategy: Unsupported value: "pack"`},
		"another file to follow": {policyHeader + "policyFile: /etc/policy.yaml\n", "policyFile: Forbidden"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseScorePolicy([]byte(tc.data))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestShippedPolicyIsTheDefault(t *testing.T) {
	data, err := os.ReadFile("../../../../manifests/scheduler/score-policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseScorePolicy(data)
	if err != nil {
		t.Fatal(err)
	}
	want := &GPUScoreArgs{TypeMeta: got.TypeMeta}
	want.SetDefaults()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("shipped policy (-default +shipped):\n%s", diff)
	}
}
