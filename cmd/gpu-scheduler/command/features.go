package command

import (
	"fmt"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"

	"g8s.host/gpu-scheduler/plugins"
)

// setFeatureDefaults must run before the flags are created: defaults cannot be changed afterwards.
func setFeatureDefaults() error {
	for feature, enabled := range plugins.FeatureDefaults {
		if err := utilfeature.DefaultMutableFeatureGate.OverrideDefault(feature, enabled); err != nil {
			return fmt.Errorf("setting the default of feature gate %s: %w", feature, err)
		}
	}
	return nil
}

// refuseFeatures fails for an enabled gate that the scheduler does not support. Kubernetes' cycle for PodGroups calls Reserve for tentative
// places, and evicts for a group on its own: together with our planner, GPUs would be reserved for pods that are never bound.
func refuseFeatures(gates featuregate.FeatureGate) error {
	if gates.Enabled(features.GenericWorkload) {
		return fmt.Errorf("feature gate %s is on, and this scheduler places PodGroups itself: add %s=false to --feature-gates. The API server may have it on",
			features.GenericWorkload, features.GenericWorkload)
	}
	return nil
}
