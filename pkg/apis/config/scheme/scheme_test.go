package scheme_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	_ "g8s.host/gpu-scheduler/pkg/apis/config/scheme"
	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	"g8s.host/gpu-scheduler/test/golden"
)

// plain enables both plugins and gives no arguments.
const plain = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: gpu-scheduler
  plugins: {multiPoint: {enabled: [{name: GPUFilter}, {name: GPUScore}]}}
`

func decode(t *testing.T, data string) (*config.KubeSchedulerConfiguration, error) {
	t.Helper()
	obj, _, err := scheme.Codecs.UniversalDecoder().Decode([]byte(data), nil, nil)
	if err != nil {
		return nil, err
	}
	return obj.(*config.KubeSchedulerConfiguration), nil
}

// ours returns the arguments of our plugins in the first profile, as JSON by plugin.
func ours(t *testing.T, cfg *config.KubeSchedulerConfiguration) string {
	t.Helper()
	args := map[string]runtime.Object{}
	for _, plugin := range cfg.Profiles[0].PluginConfig {
		if strings.HasPrefix(plugin.Name, "GPU") {
			args[plugin.Name] = plugin.Args
		}
	}
	data, err := json.MarshalIndent(args, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data) + "\n"
}

func TestArgumentsAreDecodedAndDefaulted(t *testing.T) {
	classic, err := os.ReadFile("testdata/classic.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ config, golden string }{
		"a profile without arguments gets every default": {plain, "testdata/defaults.json"},
		"the classic configuration loads as it is":       {string(classic), "testdata/classic.json"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cfg, err := decode(t, tc.config)
			if err != nil {
				t.Fatalf("decoding: %v", err)
			}
			golden.Compare(t, tc.golden, ours(t, cfg))
		})
	}
}

func TestArgumentsAreWrittenBack(t *testing.T) {
	cfg, err := decode(t, plain)
	if err != nil {
		t.Fatal(err)
	}
	data, err := runtime.Encode(scheme.Codecs.LegacyCodec(configv1.SchemeGroupVersion), cfg)
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	again, err := decode(t, string(data))
	if err != nil {
		t.Fatalf("decoding what was written: %v\n%s", err, data)
	}
	if diff := cmp.Diff(ours(t, cfg), ours(t, again)); diff != "" {
		t.Errorf("arguments after a round trip (-want +got):\n%s", diff)
	}
}

func TestUnknownFieldsAreRefused(t *testing.T) {
	tests := map[string]struct{ args, want string }{
		"a misspelt weight": {
			`{name: GPUScore, args: {weights: {utilisation: 40}}}`, `unknown field "weights.utilisation"`,
		},
		"a misspelt argument": {`{name: GPUFilter, args: {gputypes: [T4]}}`, `unknown field "gputypes"`},
		"a weight that is no number": {
			`{name: GPUScore, args: {weights: {topology: high}}}`, "weights.topology",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := decode(t, plain+"  pluginConfig: ["+tc.args+"]\n")
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("decoding returned %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// TestManifestsLoad holds every scheduler configuration that we ship to what kube-scheduler accepts.
func TestManifestsLoad(t *testing.T) {
	files, err := filepath.Glob("../../../../manifests/s*/*scheduler-config*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scheduler configuration found in manifests/: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			cfg, err := options.LoadConfigFromFile(klog.Background(), file)
			if err != nil {
				t.Fatalf("loading: %v", err)
			}
			if err := validation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
				t.Errorf("validating: %v", err)
			}
		})
	}
}
