package configcheck

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/test/golden"
)

const header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

func read(t *testing.T, file string) *Meaning {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	meaning, err := Read(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	return meaning
}

const (
	shipped = "../../manifests/scheduler/scheduler-config.yaml"
	policy  = "../../manifests/scheduler/score-policy.yaml"
)

// TestMeanings holds what is printed for whole files.
func TestMeanings(t *testing.T) {
	for name, files := range map[string]struct{ file, against string }{
		"shipped": {shipped, shipped},
		"classic": {"testdata/classic.yaml", shipped},
		"policy":  {"testdata/policy.yaml", policy},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			meaning := read(t, files.file)
			if err := Write(&out, meaning); err != nil {
				t.Fatal(err)
			}
			if err := WriteChanges(&out, "the other", FindChanges(read(t, files.against), meaning)); err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, "testdata/"+name+".txt", out.String())
			for line := range strings.Lines(out.String()) {
				if len(strings.TrimSuffix(line, "\n")) > width {
					t.Errorf("wider than %d columns: %s", width, line)
				}
			}
		})
	}
}

func TestMistakesAreNamed(t *testing.T) {
	tests := map[string]struct{ data, want string }{
		"a field of a profile":        {header + "profiles:\n- schedulerName: a\n  plugin: {}\n", `line 5: profiles[0].plugin: unknown field (did you mean "plugins"?)`},
		"an extension point":          {header + "profiles:\n- plugins:\n    filtr: {}\n", `line 5: profiles[0].plugins.filtr: unknown field (did you mean "filter"?)`},
		"an argument of ours":         {header + "profiles:\n- pluginConfig:\n  - args:\n      weights: {utilisation: 4}\n    name: GPUScore\n", `line 6: profiles[0].pluginConfig[0].args.weights.utilisation: unknown field (did you mean "utilization"?)`},
		"an argument of Kubernetes'":  {header + "profiles:\n- pluginConfig:\n  - name: NodeResourcesFit\n    args: {scoringStrateg: {}}\n", `(did you mean "scoringStrategy"?)`},
		"several":                     {header + "paralelism: 3\nleaderElection: {leaderElekt: true}\n", "line 3: paralelism: unknown field (did you mean \"parallelism\"?)\nline 4: leaderElection.leaderElekt"},
		"in another case":             {header + "Profiles: []\n", `did you mean "profiles"`},
		"nothing near":                {header + "clientConnection: {xyzzy: 1}\n", "unknown field, want one of acceptContentTypes, burst, contentType, kubeconfig, qps"},
		"behind an anchor":            {header + "profiles:\n- &a {plugin: {}}\n", "line 4: profiles[0].plugin"},
		"a policy":                    {"apiVersion: kubescheduler.config.k8s.io/v1\nkind: GPUScoreArgs\nweight: {}\n", `line 3: weight: unknown field (did you mean "weights"?)`},
		"a value of the wrong type":   {header + "parallelism: many\n", "parallelism"},
		"a value out of range":        {header + "parallelism: -1\n", "parallelism"},
		"a plugin that there is none": {header + "profiles:\n- plugins: {filter: {enabled: [{name: GPUFiltr}]}}\n", "GPUFiltr"},
		"a plugin that was withdrawn": {header + "profiles:\n- plugins: {multiPoint: {enabled: [{name: CapacityScheduling}]}}\n", "CapacityScheduling is not part of gpu-scheduler any more: take it out"},
		"the same at one point":       {header + "profiles:\n- plugins: {postFilter: {enabled: [{name: CapacityScheduling}]}}\n", "GPUQuotas guarantee GPUs to namespaces"},
		"a weight of ours":            {header + "profiles:\n- plugins: {multiPoint: {enabled: [{name: GPUScore}]}}\n  pluginConfig: [{name: GPUScore, args: {weights: {topology: 140}}}]\n", "weights.topology: Invalid value: 140"},
		"an older version":            {"apiVersion: kubescheduler.config.k8s.io/v1beta1\nkind: KubeSchedulerConfiguration\n", "v1beta1 is not read: write apiVersion: kubescheduler.config.k8s.io/v1"},
		"a ConfigMap":                 {"apiVersion: v1\nkind: ConfigMap\n", "it is a ConfigMap: give the configuration within"},
		"nothing":                     {"", "there is nothing in it"},
		"a list":                      {"[]", "want fields such as apiVersion"},
		"no YAML":                     {"a: [", "line"},
		"what unfolds to gigabytes":   {"a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n", "has more than"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Read(t.Context(), []byte(tc.data))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestDoubts(t *testing.T) {
	const all = "{multiPoint: {enabled: [{name: GPUScore, weight: 10000}, {name: GPUFilter}]}, reserve: {enabled: [{name: GPUDevices}]}, "
	tests := map[string]struct{ data, want string }{
		"nothing":                   {"- schedulerName: gpu-scheduler\n  plugins: " + all + "bind: {enabled: [{name: GPUDevices}], disabled: [{name: DefaultBinder}]}}\n", ""},
		"no cards are chosen":       {"- schedulerName: gpu-scheduler\n  plugins: {multiPoint: {enabled: [{name: GPUFilter}]}}\n", "GPUDevices is not at reserve"},
		"cards are not written":     {"- schedulerName: gpu-scheduler\n  plugins: " + all + "}\n", "GPUDevices is not the first at bind"},
		"another name":              {"- schedulerName: other\n", "gpuctl's jobs name the scheduler gpu-scheduler"},
		"a weight that is too low":  {"- schedulerName: gpu-scheduler\n  plugins: {multiPoint: {enabled: [{name: GPUScore}]}}\n", "GPUScore has the weight 1 and the other scorers"},
		"arguments of nobody":       {"- schedulerName: gpu-scheduler\n  pluginConfig: [{name: GPUFilter, args: {gpuTypes: [T4]}}]\n", "arguments of GPUFilter, which is not enabled"},
		"the Lease of another":      {"profiles: [{schedulerName: gpu-scheduler}]\n", "names the Lease kube-system/kube-scheduler and not kube-system/gpu-scheduler"},
		"no Lease":                  {"leaderElection: {leaderElect: false}\nprofiles: [{schedulerName: gpu-scheduler}]\n", "leaderElect is false, so the API server refuses every binding"},
		"a file with the arguments": {"- schedulerName: gpu-scheduler\n  plugins: " + all + "}\n  pluginConfig: [{name: GPUScore, args: {policyFile: /p}}]\n", "from /p once it can be read"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			const election = "leaderElection: {resourceName: gpu-scheduler}\n"
			data := header + election + "profiles:\n" + tc.data
			if !strings.HasPrefix(tc.data, "-") {
				data = header + tc.data
			}
			meaning, err := Read(t.Context(), []byte(data))
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(meaning.Warnings, "\n")
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("warnings:\n%s\nwant %q", got, tc.want)
			}
		})
	}
}

func TestTheSecondDocumentIsNotRead(t *testing.T) {
	meaning, err := Read(t.Context(), []byte(header+"---\na: b\n"))
	if err != nil || len(meaning.Warnings) == 0 || !strings.Contains(meaning.Warnings[0], "second document") {
		t.Errorf("%v, %v", meaning, err)
	}
}
