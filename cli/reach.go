package cli

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// podPrivileges lists what pods of a template can access beyond themselves: their node, other workloads, credentials. The Jobs that gpuctl creates
// have none of this, except for host paths that administrators allow. The worst comes first, so that an attacker cannot hide it behind many harmless
// entries.
func podPrivileges(template *corev1.PodTemplateSpec) []phrase.Text {
	spec := &template.Spec
	containers := allContainers(spec)
	var out []phrase.Text
	for i := range containers {
		if security := containers[i].SecurityContext; security != nil && ptr.Deref(security.Privileged, false) {
			out = append(out, phrase.Textf("all of its node: container %s is privileged", shortText(containers[i].Name)))
		}
	}
	out = append(out, podSpecPrivileges(spec)...)
	for i := range containers {
		out = append(out, containerPrivileges(&containers[i])...)
	}
	for i := range spec.Volumes {
		out = append(out, volumeAccess(&spec.Volumes[i])...)
	}
	for i := range containers {
		out = append(out, secretsInEnv(&containers[i])...)
	}
	return out
}

func podSpecPrivileges(spec *corev1.PodSpec) (out []phrase.Text) {
	for _, found := range []struct {
		is   bool
		text phrase.Text
	}{
		{spec.HostNetwork, phrase.Textf("the network of its node (hostNetwork)")},
		{spec.HostPID, phrase.Textf("the processes of its node (hostPID)")},
		{spec.HostIPC, phrase.Textf("the memory that processes of its node share (hostIPC)")},
		{serviceAccountName(spec) != "", phrase.Textf("the rights of a service account: %s", shortText(serviceAccountName(spec)))},
		{spec.NodeName != "", phrase.Textf("a node past the scheduler (nodeName): %s", shortText(spec.NodeName))},
		{!names.IsOurScheduler(spec.SchedulerName), phrase.Textf("another scheduler: %s", shortText(cmp.Or(spec.SchedulerName, corev1.DefaultSchedulerName)))},
		{strings.HasPrefix(spec.PriorityClassName, "system-"), phrase.Textf("a priority above all jobs: %s", shortText(spec.PriorityClassName))},
		{slices.ContainsFunc(spec.Tolerations, toleratesAll), phrase.Textf("nodes with any taint (a toleration of all)")},
	} {
		if found.is {
			out = append(out, found.text)
		}
	}
	return out
}

// serviceAccountName returns the service account of pods, from either of two fields: the API server uses the deprecated one if the other is empty.
func serviceAccountName(spec *corev1.PodSpec) string {
	return cmp.Or(spec.ServiceAccountName, spec.DeprecatedServiceAccount)
}

func toleratesAll(toleration corev1.Toleration) bool {
	return toleration.Key == "" && toleration.Operator == corev1.TolerationOpExists
}

// volumeAccess lists host paths, Secrets, and volumes that are neither created for the pod nor from its namespace.
func volumeAccess(volume *corev1.Volume) []phrase.Text {
	switch source := &volume.VolumeSource; {
	case source.HostPath != nil:
		return []phrase.Text{phrase.Textf("a path of its node (hostPath): %s", shortText(source.HostPath.Path))}
	case source.Secret != nil:
		return []phrase.Text{phrase.Textf("a Secret: %s", shortText(source.Secret.SecretName))}
	case source.Projected != nil:
		var out []phrase.Text
		for _, part := range source.Projected.Sources {
			switch {
			case part.Secret != nil:
				out = append(out, phrase.Textf("a Secret: %s", shortText(part.Secret.Name)))
			case part.ServiceAccountToken != nil:
				out = append(out, phrase.Textf("a token of its service account, for %s", shortText(part.ServiceAccountToken.Audience)))
			}
		}
		return out
	case source.EmptyDir != nil, source.ConfigMap != nil, source.PersistentVolumeClaim != nil, source.DownwardAPI != nil, source.Ephemeral != nil:
		return nil
	}
	return []phrase.Text{phrase.Textf("a volume of the kind %s", volumeKind(volume))}
}

func containerPrivileges(container *corev1.Container) (out []phrase.Text) {
	if security := container.SecurityContext; security != nil && security.Capabilities != nil && len(security.Capabilities.Add) > 0 {
		var added []string
		for _, capability := range security.Capabilities.Add {
			added = append(added, string(capability))
		}
		out = append(out, phrase.Textf("capabilities of container %s: %s", shortText(container.Name), shortText(strings.Join(added, ", "))))
	}
	for _, port := range container.Ports {
		if port.HostPort != 0 {
			out = append(out, phrase.Textf("a port of its node (hostPort): %d", port.HostPort))
		}
	}
	return out
}

// secretsInEnv lists the Secrets in the environment of a container.
func secretsInEnv(container *corev1.Container) (out []phrase.Text) {
	for _, from := range container.EnvFrom {
		if from.SecretRef != nil {
			out = append(out, phrase.Textf("a Secret: %s", shortText(from.SecretRef.Name)))
		}
	}
	for _, variable := range container.Env {
		if from := variable.ValueFrom; from != nil && from.SecretKeyRef != nil {
			out = append(out, phrase.Textf("a Secret: %s", shortText(from.SecretKeyRef.Name)))
		}
	}
	return out
}
