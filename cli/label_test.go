package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

func TestParseLabels(t *testing.T) {
	tests := map[string]struct {
		args   []string
		remove bool
		nodes  []string
		labels map[string]*string
		err    string
	}{
		"kubectl's order": {
			args: []string{"node", "n2", "n1", "gpu-type=A100-80G"}, nodes: []string{"n1", "n2"},
			labels: map[string]*string{"g8s.host/gpu-type": ptr.To("A100-80G")},
		},
		"without the word node": {args: []string{"n1", "rack=r1"}, nodes: []string{"n1"}, labels: map[string]*string{"g8s.host/rack": ptr.To("r1")}},
		"the label before the node": {
			args: []string{"node", "pool=p", "n1"}, nodes: []string{"n1"}, labels: map[string]*string{"g8s.host/pool": ptr.To("p")},
		},
		"a key with a domain stays as it is": {
			args: []string{"n1", "nvidia.com/gpu.count=8"}, nodes: []string{"n1"}, labels: map[string]*string{"nvidia.com/gpu.count": ptr.To("8")},
		},
		"a label that the scheduler reads without a domain has none": {
			args: []string{"n1", "accelerator=nvidia-tesla-v100", "gpu-memory=16Gi"}, nodes: []string{"n1"},
			labels: map[string]*string{"accelerator": ptr.To("nvidia-tesla-v100"), "gpu-memory": ptr.To("16Gi")},
		},
		"another key is taken as it is": {
			args: []string{"n1", "team=x", "accelerator=L4"}, nodes: []string{"n1"},
			labels: map[string]*string{"team": ptr.To("x"), "accelerator": ptr.To("L4")},
		},
		"but for those of ours": {
			args: []string{"n1", "pool=x", "gpuType=L4"}, nodes: []string{"n1"},
			labels: map[string]*string{"g8s.host/pool": ptr.To("x"), "g8s.host/gpu-type": ptr.To("L4")},
		},
		"the first gpuctl's spelling": {
			args: []string{"n1", "gpuType=L4"}, nodes: []string{"n1"}, labels: map[string]*string{"g8s.host/gpu-type": ptr.To("L4")},
		},
		"a key with a dash at its end goes": {args: []string{"n1", "rack-"}, nodes: []string{"n1"}, labels: map[string]*string{"g8s.host/rack": nil}},
		"the last argument goes with --delete": {
			args: []string{"n1", "n2", "rack"}, remove: true, nodes: []string{"n1", "n2"}, labels: map[string]*string{"g8s.host/rack": nil},
		},
		"the label goes that stands before the node": {
			args: []string{"node", "pool", "n1"}, remove: true, nodes: []string{"n1"}, labels: map[string]*string{"g8s.host/pool": nil},
		},
		"a key of the first gpuctl's domain": {
			args: []string{"node", "runwhere.ai/gpuType=a100-80g", "n1"}, nodes: []string{"n1"}, labels: map[string]*string{"g8s.host/gpu-type": ptr.To("a100-80g")},
		},
		"a value does not matter when a label goes": {
			args: []string{"n1", "rack=r1"}, remove: true, nodes: []string{"n1"}, labels: map[string]*string{"g8s.host/rack": nil},
		},
		"an empty value is a value": {args: []string{"n1", "rack="}, nodes: []string{"n1"}, labels: map[string]*string{"g8s.host/rack": ptr.To("")}},
		"no label":                  {args: []string{"n1"}, err: "no label: give KEY=VALUE, or KEY- to remove one"},
		"no node":                   {args: []string{"rack=r1"}, err: "no node to label"},
		"nothing at all":            {remove: true, err: "no label: give KEY=VALUE, or KEY- to remove one"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nodes, labels, err := (&labelOptions{remove: tc.remove}).parseArgs(tc.args)
			if got := errorText(err); got != tc.err {
				t.Fatalf("error is %q, want %q", got, tc.err)
			}
			if diff := cmp.Diff(tc.nodes, nodes) + cmp.Diff(tc.labels, labels); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
