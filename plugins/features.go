package plugins

import (
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
)

// FeatureDefaults are the gates whose default differs from kube-scheduler's; --feature-gates still has the last word.
var FeatureDefaults = map[featuregate.Feature]bool{
	// It nominates a pod to its node while its binding takes time: a write more for each pod with volumes or claims. No member of a gang
	// is nominated by it where it is on (announce.go), so that none outlives a place that was given up.
	features.NominatedNodeNameForExpectation: false,
	// Kubernetes' own cycle for PodGroups. Coscheduling plans them, too, from the same objects.
	features.GenericWorkload: false,
}
