package recording

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Fields of an object that a scheduler does not use, or that are private.
var (
	ofMetadata  = []string{"managedFields", "generateName", "selfLink", "finalizers"}
	ofContainer = []string{
		"command", "args", "env", "envFrom", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "securityContext",
		"terminationMessagePath", "terminationMessagePolicy", "volumeMounts", "workingDir",
	}
	ofNodeStatus = []string{"conditions", "addresses", "daemonEndpoints", "nodeInfo", "volumesInUse", "volumesAttached"}
	ofPodStatus  = []string{"phase", "nominatedNodeName", "conditions", "startTime"} // which is kept
)

// lastApplied repeats all of an object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// trimObject removes what a replay does not need.
func trimObject(object *unstructured.Unstructured) {
	for _, field := range ofMetadata {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(object.Object, "metadata", "annotations", lastApplied)
	switch object.GetKind() {
	case "Pod":
		trimPod(object.Object)
	case "Node":
		for _, field := range ofNodeStatus {
			unstructured.RemoveNestedField(object.Object, "status", field)
		}
	}
}

func trimPod(pod map[string]any) {
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		containers, found, err := unstructured.NestedSlice(pod, "spec", list)
		if !found || err != nil {
			continue
		}
		for _, container := range containers {
			if fields, ok := container.(map[string]any); ok {
				for _, field := range ofContainer {
					delete(fields, field)
				}
			}
		}
		_ = unstructured.SetNestedSlice(pod, containers, "spec", list) // it is the original list
	}
	status, ok := pod["status"].(map[string]any)
	if !ok {
		return
	}
	kept := map[string]any{}
	for _, field := range ofPodStatus {
		if value, ok := status[field]; ok {
			kept[field] = value
		}
	}
	kept["conditions"] = onlyScheduled(status["conditions"])
	pod["status"] = kept
}

// onlyScheduled keeps the one condition that the scheduler sets.
func onlyScheduled(conditions any) []any {
	kept := []any{}
	all, _ := conditions.([]any)
	for _, condition := range all {
		if fields, ok := condition.(map[string]any); ok && fields["type"] == string(corev1.PodScheduled) {
			kept = append(kept, condition)
		}
	}
	return kept
}
