package main

import (
	"fmt"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
)

// ourFeatures are the gates whose default differs from kube-scheduler's; --feature-gates still has the last word.
var ourFeatures = map[featuregate.Feature]bool{
	// It nominates a pod to its node while it waits in Permit. The nominations of a gang that gives up its places can
	// outlive it, since they come back with the next update of the pod, and then keep all other gangs out forever.
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
