package plugins

import (
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
