package gang

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Kind is a kind of objects, in one version of its API, whose pods start together.
type Kind struct {
	// Name is that of [Membership.Kind]. Two kinds may share it: an MPIJob is of one of two operators.
	Name     string
	Resource schema.GroupVersionResource

	readSizes func(object map[string]any) Sizes
}

// Kinds returns all kinds, with a separate entry for each version of an API.
func Kinds() []Kind { return slices.Clone(kinds) }

var kinds = []Kind{
	{KindPodGroup, newResource("scheduling.k8s.io", "v1beta1", "podgroups"), readPodGroup},  // 1.37
	{KindPodGroup, newResource("scheduling.k8s.io", "v1alpha2", "podgroups"), readPodGroup}, // 1.36
	{KindLeaderWorkerSet, newResource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets"), readLeaderWorkerSet},
	{KindJobSet, newResource("jobset.x-k8s.io", "v1alpha2", "jobsets"), readJobSet},
	{KindRayCluster, newResource("ray.io", "v1", "rayclusters"), readRayCluster},
	{"PyTorchJob", newResource("kubeflow.org", "v1", "pytorchjobs"), readTrainingJob("pytorchReplicaSpecs")},
	{"TFJob", newResource("kubeflow.org", "v1", "tfjobs"), readTrainingJob("tfReplicaSpecs")},
	{"XGBoostJob", newResource("kubeflow.org", "v1", "xgboostjobs"), readTrainingJob("xgbReplicaSpecs")},
	{"JAXJob", newResource("kubeflow.org", "v1", "jaxjobs"), readTrainingJob("jaxReplicaSpecs")},
	{"PaddleJob", newResource("kubeflow.org", "v1", "paddlejobs"), readTrainingJob("paddleReplicaSpecs")},
	{KindMPIJob, newResource("kubeflow.org", "v1", "mpijobs"), readTrainingJob("mpiReplicaSpecs")},
	{KindMPIJob, newResource("kubeflow.org", "v2beta1", "mpijobs"), readTrainingJob("mpiReplicaSpecs")},
	jobKind,
}

var jobKind = Kind{KindJob, newResource("batch", "v1", "jobs"), readJob}

func newResource(group, version, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
}

// Sizes say how many members the groups of an object start with. The zero value is an object whose pods start one by one.
type Sizes struct {
	// Whole is the size of the group of all its pods, 0 where there is none.
	Whole int
	// Parts are the sizes of the groups of its parts, Each that of every part.
	Parts map[string]int
	Each  int
	// Topology is the layout of the members, in the form of the annotation g8s.host/topology.
	Topology string
}

// SizeOf returns the size of the group of a part, or of all pods for "". 0 is no group.
func (s Sizes) SizeOf(part string) int {
	switch {
	case part == "":
		return s.Whole
	case s.Each > 0:
		return s.Each
	}
	return s.Parts[part]
}

// Read returns the sizes of an object. A malformed object, or one that opts out of gangs, has the zero value.
func (k Kind) Read(object *unstructured.Unstructured) Sizes {
	annotations := object.GetAnnotations()
	if annotations[names.AnnotationGang] == names.GangOff {
		return Sizes{}
	}
	out := k.readSizes(object.Object)
	if layout := annotations[names.AnnotationTopology]; layout != "" {
		out.Topology = layout
	}
	return out
}

// fieldAt returns what is at a path of an object, nil for nothing.
func fieldAt(object any, path ...string) any {
	for _, name := range path {
		fields, ok := object.(map[string]any)
		if !ok {
			return nil
		}
		object = fields[name]
	}
	return object
}

// objectsAt returns the objects of a list at a path.
func objectsAt(object any, path ...string) []any {
	entries, _ := fieldAt(object, path...).([]any)
	return slices.DeleteFunc(slices.Clone(entries), func(entry any) bool { _, ok := entry.(map[string]any); return !ok })
}

func textAt(object any, path ...string) string {
	value, _ := fieldAt(object, path...).(string)
	return value
}

// maxPods bounds the number of pods of an object, far beyond the room of any cluster, so that products do not overflow.
const maxPods = 1_000_000

// podCountAt reads a number of pods, with a default.
func podCountAt(object any, otherwise int, path ...string) int {
	value, ok := fieldAt(object, path...).(int64)
	if !ok {
		return otherwise
	}
	return int(min(max(value, 0), maxPods))
}

// asksGPUs reports whether the pods of a template request GPUs, or devices by claims.
func asksGPUs(template any) bool {
	spec, ok := fieldAt(template, "spec").(map[string]any)
	if !ok {
		return false
	}
	var pod corev1.Pod
	if runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &pod.Spec) != nil {
		return false
	}
	request, err := gpu.RequestOf(&pod)
	return err != nil || !request.IsZero() || len(pod.Spec.ResourceClaims) > 0
}
