package workload

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const migJob = "kind: training\njob: {name: a}\nenvironment: {image: busybox}\nresources:\n  "

func TestMIGSlices(t *testing.T) {
	one := func(profile string, count int64) MIGSlices { return MIGSlices{Profile: profile, Count: count} }
	tests := map[string]struct {
		yaml string
		want []MIGSlices
		err  string
	}{
		"a profile":                     {yaml: "mig: 3g.20gb", want: []MIGSlices{one("3g.20gb", 1)}},
		"with media engines":            {yaml: "mig: 1g.10gb.me", want: []MIGSlices{one("1g.10gb.me", 1)}},
		"a count":                       {yaml: "mig: {3g.20gb: 2}", want: []MIGSlices{one("3g.20gb", 2)}},
		"a section":                     {yaml: "mig: {profile: 3g.20gb, count: 2}", want: []MIGSlices{one("3g.20gb", 2)}},
		"several":                       {yaml: "mig: {3g.20gb: 1, 1g.5gb: 3}", want: []MIGSlices{one("3g.20gb", 1), one("1g.5gb", 3)}},
		"a list":                        {yaml: "mig: [3g.20gb, {profile: 1g.5gb, count: 3}]", want: []MIGSlices{one("3g.20gb", 1), one("1g.5gb", 3)}},
		"no profile":                    {yaml: "mig: 3", err: "train.yaml:5:8: resources.mig[0]: \"3\" is not a MIG profile"},
		"NVIDIA's name in nvidia-smi":   {yaml: "mig: 1g.10gb+me", err: `(for example "1g.10gb.me")`},
		"a profile twice":               {yaml: "mig: [3g.20gb, 3g.20gb]", err: "3g.20gb"},
		"none of one":                   {yaml: "mig: {3g.20gb: 0}", err: "is less than 1"},
		"more than a node has":          {yaml: "mig: {3g.20gb: 65}", err: "is out of range"},
		"a list in a list":              {yaml: "mig: [[3g.20gb]]", err: "resources.mig"},
		"whole GPUs beside it":          {yaml: "mig: 3g.20gb\n  gpu: 1", err: "resources.mig and resources.gpu exclude each other"},
		"a part of a GPU's memory, too": {yaml: "mig: 3g.20gb\n  gpu-share: 2Gi", err: "exclude each other"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			docs, diagnostics := Parse("train.yaml", []byte(migJob+tc.yaml+"\n"))
			if tc.err != "" {
				if !diagnostics.HasErrors() || !strings.Contains(fmt.Sprint(diagnostics), tc.err) {
					t.Fatalf("diagnostics %v, want %q", diagnostics, tc.err)
				}
				return
			}
			if len(diagnostics) > 0 {
				t.Fatal(diagnostics)
			}
			if diff := cmp.Diff(tc.want, docs[0].Job.Resources.MIG); diff != "" {
				t.Errorf("slices (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKeysOfTheFirstGpuctlAreToldOurs(t *testing.T) {
	tests := map[string]string{
		"kind: training\njob: {name: a}\nenvironment: {image: i}\nresources: {accelerator_count: 2}\n":     `it is called "gpu"`,
		"kind: inference\njob: {name: a}\nenvironment: {image: i}\nservice: {timeout: 60s}\n":              `it is called "startup-timeout"`,
		"kind: training\njob: {name: a, batchSize: 8}\nenvironment: {image: i}\n":                          "environment.args",
		"kind: inference\njob: {name: a}\nenvironment: {image: i}\nmodel: {source: hub}\n":                 "mount the model with storage.workdirs",
		"kind: training\njob: {name: a}\nenvironment: {image: i}\nresources: {accelerators: 2}\n":          "unknown field",
		"kind: pool\nmetadata: {name: cpu}\nnodes: {node1: {gpu-type: \"\"}}\n":                            "",
		"kind: pool\nmetadata: {name: cpu}\nnodes: [{name: node1, gpuType: ''}]\n":                         "",
		"kind: training\njob: {name: a}\nenvironment: {image: i}\nresources: {gpu: 0, gpu-type: \"\"}\n":   "",
		"kind: training\njob: {name: a}\nenvironment: {image: i}\nresources: {gpu: 1, gpu-type: [\"\"]}\n": "is empty",
	}
	for text, want := range tests {
		_, diagnostics := Parse("a.yaml", []byte(text))
		switch {
		case want == "" && diagnostics.HasErrors():
			t.Errorf("%s\n%v", text, diagnostics)
		case want != "" && (!diagnostics.HasErrors() || !strings.Contains(fmt.Sprint(diagnostics), want)):
			t.Errorf("%s\ndiagnostics %v, want %q", text, diagnostics, want)
		}
	}
}
