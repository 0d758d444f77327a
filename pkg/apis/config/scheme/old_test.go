package scheme_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	configscheme "g8s.host/gpu-scheduler/pkg/apis/config/scheme"
)

const today, old = "kubescheduler.config.k8s.io/v1\n", "kubescheduler.config.k8s.io/v1beta3\n"

// TestTheOldVersionMeansTheSame loads each configuration under both versions, as kube-scheduler does at its start.
func TestTheOldVersionMeansTheSame(t *testing.T) {
	classic, err := os.ReadFile("testdata/classic.yaml")
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := os.ReadFile("../../../../manifests/scheduler/scheduler-config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{
		"the classic configuration": string(classic), "the one that we ship": string(shipped), "without arguments": plain,
		"arguments with a version of their own": plain + "  pluginConfig:\n  - name: GPUScore\n    args:\n      apiVersion: kubescheduler.config.k8s.io/v1\n      kind: GPUScoreArgs\n      strategy: Pack\n",
		"arguments of Kubernetes' plugins":      plain + "  pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}]\n",
	}
	load := func(t *testing.T, data string) any {
		t.Helper()
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := options.LoadConfigFromFile(klog.Background(), file)
		if err != nil {
			t.Fatal(err)
		}
		if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
			t.Fatal(err)
		}
		cfg.APIVersion = ""
		for i := range cfg.Profiles {
			for j := range cfg.Profiles[i].PluginConfig {
				cfg.Profiles[i].PluginConfig[j].Args.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			}
		}
		return cfg
	}
	for name, data := range tests {
		t.Run(name, func(t *testing.T) {
			older := strings.ReplaceAll(data, today, old)
			if older == data {
				t.Fatal("there is no version to replace, so this proves nothing")
			}
			if diff := cmp.Diff(load(t, data), load(t, older)); diff != "" {
				t.Errorf("v1 and v1beta3 (-v1 +v1beta3):\n%s", diff)
			}
		})
	}
}

func TestTheOldVersionIsStrictToo(t *testing.T) {
	_, err := decode(t, strings.ReplaceAll(plain, today, old)+"  pluginConfig: [{name: GPUScore, args: {weights: {utilisation: 40}}}]\n")
	if err == nil || !strings.Contains(err.Error(), `unknown field "weights.utilisation"`) {
		t.Errorf("decoding returned %v", err)
	}
}

func TestCheckVersion(t *testing.T) {
	const kind = "kind: KubeSchedulerConfiguration\n"
	tests := map[string]struct{ data, warning, fail string }{
		"today's":                   {data: "apiVersion: " + today + kind},
		"the old one":               {data: "apiVersion: " + old + kind, warning: "write apiVersion: kubescheduler.config.k8s.io/v1,"},
		"older ones":                {data: "apiVersion: kubescheduler.config.k8s.io/v1beta2\n" + kind, fail: "v1beta2 is not read: write apiVersion: kubescheduler.config.k8s.io/v1,"},
		"one that is not there yet": {data: "apiVersion: kubescheduler.config.k8s.io/v2\n" + kind, fail: "v2 is not read"},
		"none":                      {data: kind, fail: "apiVersion is missing"},
		"a policy":                  {data: "apiVersion: " + today + "kind: GPUScoreArgs\n"},
		"a misspelt kind":           {data: "apiVersion: " + today + "kind: KubeSchedulerConfig\n"},
		"another group":             {data: "apiVersion: v1\nkind: Pod\n"},
		"no YAML":                   {data: "{"},
		"a version that is a list":  {data: "apiVersion: [a]\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			warning, err := configscheme.CheckVersion([]byte(tc.data))
			if (warning == "") != (tc.warning == "") || !strings.Contains(warning, tc.warning) {
				t.Errorf("warning %q, want %q", warning, tc.warning)
			}
			if (err == nil) != (tc.fail == "") || err != nil && !strings.Contains(err.Error(), tc.fail) {
				t.Errorf("error %v, want %q", err, tc.fail)
			}
		})
	}
}
