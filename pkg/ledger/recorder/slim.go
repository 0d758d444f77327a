package recorder

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang"
)

// ReduceObject implements snapshot.Slimmer. It keeps what the ledger records and what storing output needs. Users may fill the rest with a megabyte per pod.
func (b *podBook) ReduceObject(object metav1.Object) metav1.Object {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object
	}
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, CreationTimestamp: pod.CreationTimestamp,
		DeletionTimestamp: pod.DeletionTimestamp, DeletionGracePeriodSeconds: pod.DeletionGracePeriodSeconds,
		Labels:          keepKeys(pod.Labels, append(gang.OwnerLabels(), names.LabelPool)...),
		Annotations:     keepKeys(pod.Annotations, names.AnnotationGPUDevices, batchv1.JobCompletionIndexAnnotation),
		OwnerReferences: controllerOf(pod),
	}}
	out.Spec = slimSpec(&pod.Spec)
	out.Spec.NodeName, out.Status.Phase = pod.Spec.NodeName, pod.Status.Phase
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		out.Status.Conditions = append(out.Status.Conditions, corev1.PodCondition{Type: c.Type, Status: c.Status, LastTransitionTime: c.LastTransitionTime})
	}
	out.Status.InitContainerStatuses = slimStatuses(pod.Status.InitContainerStatuses)
	out.Status.ContainerStatuses = slimStatuses(pod.Status.ContainerStatuses)
	return out
}

// controllerOf returns the controller of a pod, which says with its labels what the pod runs for.
func controllerOf(pod *corev1.Pod) []metav1.OwnerReference {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return []metav1.OwnerReference{*owner}
	}
	return nil
}

// slimSpec keeps what a pod requests of GPUs, and where.
func slimSpec(spec *corev1.PodSpec) corev1.PodSpec {
	return corev1.PodSpec{
		NodeSelector: spec.NodeSelector, Overhead: spec.Overhead, Resources: spec.Resources,
		Containers: slimContainers(spec.Containers), InitContainers: slimContainers(spec.InitContainers),
	}
}

func slimContainers(containers []corev1.Container) []corev1.Container {
	out := make([]corev1.Container, len(containers))
	for i := range containers {
		c := &containers[i]
		out[i] = corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
	}
	return out
}

func slimStatuses(statuses []corev1.ContainerStatus) []corev1.ContainerStatus {
	out := make([]corev1.ContainerStatus, len(statuses))
	for i := range statuses {
		out[i] = corev1.ContainerStatus{Name: statuses[i].Name, State: statuses[i].State}
		if ended := out[i].State.Terminated; ended != nil {
			out[i].State.Terminated = &corev1.ContainerStateTerminated{ExitCode: ended.ExitCode, FinishedAt: ended.FinishedAt}
		}
	}
	return out
}

// jobAnnotations are the annotations that the record of a job needs.
var jobAnnotations = []string{
	names.AnnotationUser, names.AnnotationCancelledAt, names.AnnotationPausedAt, names.AnnotationPausedBecause, names.AnnotationIncomplete,
}

// ReduceObject implements snapshot.Slimmer. It drops a job's submitted YAML and its pods' environment.
func (b *jobBook) ReduceObject(object metav1.Object) metav1.Object {
	var template *corev1.PodTemplateSpec
	switch object := object.(type) {
	case *batchv1.Job:
		template = &object.Spec.Template
	case *appsv1.Deployment:
		template = &object.Spec.Template
	default:
		return object
	}
	object.SetAnnotations(keepKeys(object.GetAnnotations(), jobAnnotations...))
	template.Annotations = keepKeys(template.Annotations, names.AnnotationGPUTypes, names.AnnotationGPUShare, names.AnnotationGPUMemoryMin)
	affinity := template.Spec.Affinity // it may say which types a job takes
	template.Spec = slimSpec(&template.Spec)
	template.Spec.Affinity = affinity
	return object
}

// keepKeys returns a map with the given keys.
func keepKeys(of map[string]string, keys ...string) map[string]string {
	out := maps.Clone(of)
	maps.DeleteFunc(out, func(key, _ string) bool { return !slices.Contains(keys, key) })
	return out
}
