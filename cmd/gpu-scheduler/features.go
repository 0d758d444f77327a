package main

import (
	"fmt"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
)

// ourFeatures are the gates whose default differs from kube-scheduler's; --feature-gates still has the last word.
var ourFeatures = map[featuregate.Feature]bool{
	// It nominates a pod to its node while its binding takes time: a write more for each pod with volumes or claims. No member of a gang
	// is nominated by it where it is on (plugins/announce.go), so that none outlives a place that was given up.
	features.NominatedNodeNameForExpectation: false,
}

// setFeatureDefaults must run before the flags are made: it is too late for defaults then.
func setFeatureDefaults() error {
	for feature, enabled := range ourFeatures {
		if err := utilfeature.DefaultMutableFeatureGate.OverrideDefault(feature, enabled); err != nil {
			return fmt.Errorf("setting the default of feature gate %s: %w", feature, err)
		}
	}
	return nil
}
