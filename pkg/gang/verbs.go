package gang

import (
	"slices"
	"strings"
)

// Changes says which changes of a workload its kind knows, besides deleting it.
type Changes struct {
	// SuspendField is the field that holds its pods back while it is true, "" for a kind that cannot be paused.
	SuspendField []string
	// Scales is true if the number of replicas can be set.
	Scales bool
}

// ChangesOf returns the changes that a kind knows.
func ChangesOf(kind string) Changes {
	switch kind {
	case KindJob, KindJobSet, KindTrainJob, KindRayCluster, KindRayJob:
		return Changes{SuspendField: []string{"spec", "suspend"}}
	case KindLeaderWorkerSet, KindDeployment, KindStatefulSet:
		return Changes{Scales: true}
	case KindMPIJob, "PyTorchJob", "TFJob", "XGBoostJob", "JAXJob", "PaddleJob":
		return Changes{SuspendField: []string{"spec", "runPolicy", "suspend"}}
	}
	return Changes{}
}

// SuspendPatch returns the merge patch that holds the pods of a workload back, "" for a kind that cannot be paused.
func (c Changes) SuspendPatch() string {
	if len(c.SuspendField) == 0 {
		return ""
	}
	patch := "true"
	for _, name := range slices.Backward(c.SuspendField) {
		patch = `{"` + name + `":` + patch + `}`
	}
	return patch
}

// KubectlName returns what kubectl calls an object of a kind: raycluster/train.
func KubectlName(kind, name string) string { return strings.ToLower(kind) + "/" + name }
