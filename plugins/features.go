package plugins

import (
	"fmt"

	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
)

// FeatureDefaults are the feature gates whose default differs from kube-scheduler's; --feature-gates overrides them.
var FeatureDefaults = map[featuregate.Feature]bool{
	// It nominates a pod to its node while its binding takes time: one more write for each pod with volumes or claims. Where it is on, it
	// nominates no gang members (announce.go), so that no nomination outlives a lost place.
	features.NominatedNodeNameForExpectation: false,
	// Kubernetes' own cycle for PodGroups. Coscheduling plans them as well, from the same objects.
	features.GenericWorkload: false,
}

// CheckFeatures fails for an enabled gate that the scheduler does not support. Kubernetes' cycle for PodGroups calls Reserve for tentative places, and
// evicts for a group on its own: together with our planner, GPUs would be reserved for pods that are never bound.
func CheckFeatures(gates featuregate.FeatureGate) error {
	if gates.Enabled(features.GenericWorkload) {
		return fmt.Errorf("feature gate %s is on, and this scheduler places PodGroups itself: add %s=false to --feature-gates. The API server may have it on",
			features.GenericWorkload, features.GenericWorkload)
	}
	return nil
}
