package command

import (
	"fmt"

	utilfeature "k8s.io/apiserver/pkg/util/feature"

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
