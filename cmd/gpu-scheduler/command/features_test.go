package command

import (
	"fmt"
	"os"
	"strings"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"

	"g8s.host/gpu-scheduler/plugins"
)

// TestMain does what main does before it makes the command, or all that main does, with a plugin that blocks.
func TestMain(m *testing.M) {
	if err := setFeatureDefaults(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if pod := os.Getenv(blockerEnv); pod != "" {
		os.Exit(cli.Run(newCommand(withBlocker(pod))))
	}
	os.Exit(m.Run())
}

func TestFeatureDefaultsAreOurs(t *testing.T) {
	for feature, want := range plugins.FeatureDefaults {
		if got := utilfeature.DefaultFeatureGate.Enabled(feature); got != want {
			t.Errorf("%s is %t, want %t", feature, got, want)
		}
	}
	// The last word is the administrator's.
	for feature, ours := range plugins.FeatureDefaults {
		if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{string(feature): !ours}); err != nil {
			t.Fatal(err)
		}
		if utilfeature.DefaultFeatureGate.Enabled(feature) == ours {
			t.Errorf("--feature-gates cannot change %s", feature)
		}
	}
}

func TestFeaturesThatAreRefused(t *testing.T) {
	for name, on := range map[string]bool{"Kubernetes' own cycle for PodGroups": true, "none": false} {
		gates := featuregate.NewFeatureGate()
		if err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{features.GenericWorkload: {Default: on, PreRelease: featuregate.Beta}}); err != nil {
			t.Fatal(err)
		}
		if err := plugins.CheckFeatures(gates); (err != nil) != on || on && !strings.Contains(err.Error(), "GenericWorkload=false") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
