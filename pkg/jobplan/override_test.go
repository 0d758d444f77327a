package jobplan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/workload"
)

func TestOverrides(t *testing.T) {
	tests := map[string]struct {
		source    string
		overrides Overrides
		want      string
	}{
		"the name, a number and a text that looks like a number": {
			source:    "kind: training\njob: {name: a}\n",
			overrides: Overrides{Name: "7", Set: []string{"resources.gpu=8", "job.description='1'"}},
			want:      "kind: training\njob: {name: \"7\", description: '1'}\nresources:\n  gpu: 8\n",
		},
		"a field in another spelling is not written twice": {
			source:    "kind: training\nresources:\n  gpuType: A # why\n",
			overrides: Overrides{Set: []string{"resources.gpu-type=B"}},
			want:      "kind: training\nresources:\n  gpuType: B # why\n",
		},
		"a list": {
			source:    "kind: training\n",
			overrides: Overrides{Set: []string{"environment.command=[python, -c, 'a, b']", "storage.workdirs=[{path: /d}]"}},
			want:      "kind: training\nenvironment:\n  command: [python, -c, 'a, b']\nstorage:\n  workdirs: [{path: /d}]\n",
		},
		"slices of GPUs, in each form": {
			source:    "kind: training\nresources: {mig: 1g.5gb}\n",
			overrides: Overrides{Set: []string{"resources.mig={3g.20gb: 2}", "resources.mig=[1g.5gb, 2g.10gb]", "resources.mig=3g.20gb"}},
			want:      "kind: training\nresources: {mig: 3g.20gb}\n",
		},
		"slices instead of GPUs": {
			source:    "kind: training\nresources: {gpu: 2, gpuShare: 0.5, pool: p}\n",
			overrides: Overrides{Set: []string{"resources.mig=3g.20gb"}},
			want:      "kind: training\nresources: {pool: p, mig: 3g.20gb}\n",
		},
		"GPUs instead of slices": {
			source:    "kind: training\nresources: {mig: 3g.20gb}\n",
			overrides: Overrides{Set: []string{"resources.gpu=2"}},
			want:      "kind: training\nresources: {gpu: 2}\n",
		},
		"several with commas, where a field takes a list": {
			source:    "kind: training\njob: {description: x}\n",
			overrides: Overrides{Set: []string{"resources.gpu-type=A100-80G, H100", "job.depends-on=a,b", "job.description=a,b"}},
			want:      "kind: training\njob: {description: 'a,b', depends-on: [a, b]}\nresources:\n  gpu-type: [A100-80G, H100]\n",
		},
		"a name instead of its beginning": {
			source:    "kind: training\njob: {generateName: sft-, ttl: 7d}\n",
			overrides: Overrides{Name: "sft"},
			want:      "kind: training\njob: {ttl: 7d, name: sft}\n",
		},
		"the beginning of a name instead of it": {
			source:    "kind: training\njob: {name: sft}\n",
			overrides: Overrides{Set: []string{"job.generate-name=sft-"}},
			want:      "kind: training\njob: {generate-name: sft-}\n",
		},
		"a name and its beginning are left for the parser to refuse": {
			source:    "kind: training\n",
			overrides: Overrides{Name: "a", Set: []string{"job.generate-name=b-"}},
			want:      "kind: training\njob:\n  name: a\n  generate-name: b-\n",
		},
		"both are left for the parser to refuse": {
			source:    "kind: training\nresources: {gpu: 1}\n",
			overrides: Overrides{Set: []string{"resources.mig=3g.20gb", "resources.gpu=2"}},
			want:      "kind: training\nresources: {gpu: 2, mig: 3g.20gb}\n",
		},
		"texts of several lines, the first indented": {
			source:    "kind: training\n",
			overrides: Overrides{Set: []string{`environment.command=[sh, -c, "  a\nb\n"]`}},
			want:      "kind: training\nenvironment:\n  command: [sh, -c, \"  a\\nb\\n\"]\n",
		},
		"nothing is the empty text": {
			source:    "kind: training\njob:\n  description: x\n",
			overrides: Overrides{Set: []string{"job.description="}},
			want:      "kind: training\njob:\n  description: \"\"\n",
		},
		"variables in a section, with = in the value": {
			source:    "kind: training\nenvironment:\n  env: {A: 1}\n",
			overrides: Overrides{Env: []string{"A=2", "gpu_type=x=y"}},
			want:      "kind: training\nenvironment:\n  env: {A: \"2\", gpu_type: x=y}\n",
		},
		"variables in a list of either form; a value from a Secret gives way": {
			source:    "kind: training\nenvironment:\n  env:\n    - name: A\n      value-from: {secret: s, key: k}\n    - B: 1\n",
			overrides: Overrides{Env: []string{"A=2", "B=3", "C=4"}},
			want:      "kind: training\nenvironment:\n  env:\n    - {name: A, value: \"2\"}\n    - B: \"3\"\n    - {name: C, value: \"4\"}\n",
		},
		"what an alias stands for elsewhere is not changed": {
			source:    "kind: training\nenvironment: {env: &e {A: 1}}\nservice: *e\n",
			overrides: Overrides{Env: []string{"A=2"}},
			want:      "kind: training\nenvironment: {env: &e {A: \"2\"}}\nservice: *e\n",
		},
		"a section that is an alias is copied first": {
			source:    "kind: training\nx: &x {pool: p}\nresources: *x\n",
			overrides: Overrides{Set: []string{"resources.gpu=1"}},
			want:      "kind: training\nx: &x {pool: p}\nresources: {pool: p, gpu: 1}\n",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tc.overrides.Apply(workload.KindTraining, tc.source)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOverridesThatAreNone(t *testing.T) {
	for set, want := range map[string]string{
		"resources":                    "write FIELD=VALUE",
		"=8":                           "write FIELD=VALUE",
		"resources.gup=8":              `did you mean "gpu"`,
		"resources=8":                  "no field that can be set",
		"kind=pool":                    "no field that can be set",
		"environment.env=[]":           "--env NAME=VALUE",
		"environment.env.A=1":          "--env NAME=VALUE",
		"storage.workdirs[0].path=x":   "one of a list",
		"resources.mig.profile=1g.5gb": "one of a list",
		"resources.gpu=[1":             "no YAML",
		"resources.gpu=1\n---\na: b":   "goes on behind the value",
		"service.port=1":               `no field "service"`,
	} {
		_, err := Overrides{Set: []string{set}}.Apply(workload.KindTraining, "kind: training\n")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v, want %q", set, err, want)
		}
	}
	for _, variable := range []string{"A", "=1"} {
		if _, err := (Overrides{Env: []string{variable}}).Apply(workload.KindTraining, "kind: training\n"); err == nil {
			t.Errorf("--env %s was accepted", variable)
		}
	}
}

// FuzzOverrides holds that no value breaks out of the field that it is for.
func FuzzOverrides(f *testing.F) {
	f.Add("a", "x: y", "- b")
	f.Add("a\nb", "#", "{")
	f.Fuzz(func(t *testing.T, name, value, variable string) {
		source := "kind: training\nenvironment: {image: i}\nresources: {gpu: 1}\n"
		got, err := Overrides{Name: name, Env: []string{"A=" + variable}}.Apply(workload.KindTraining, source)
		if err != nil {
			return
		}
		if got, err = SetField(got, "job.description", value); err != nil {
			return
		}
		docs, _ := workload.Parse("f", []byte(got))
		for _, doc := range docs {
			if doc.Job.Resources.GPU != 1 || doc.Job.Environment.Image != "i" || name != "" && doc.Job.Name != name {
				t.Errorf("name %q, description %q and variable %q became %+v", name, value, variable, doc.Job)
			}
		}
	})
}
