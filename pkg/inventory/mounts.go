package inventory

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// environmentVariables are the environment of a container as NAME=value, or as NAME and where the value comes from.
func environmentVariables(container *corev1.Container) []string {
	var out []string
	for _, variable := range container.Env {
		if variable.ValueFrom == nil {
			out = append(out, variable.Name+"="+variable.Value)
			continue
		}
		out = append(out, variable.Name+" from "+envSource(variable.ValueFrom))
	}
	return out
}

func envSource(source *corev1.EnvVarSource) string {
	switch {
	case source.SecretKeyRef != nil:
		return fmt.Sprintf("secret %s, key %s", source.SecretKeyRef.Name, source.SecretKeyRef.Key)
	case source.ConfigMapKeyRef != nil:
		return fmt.Sprintf("config map %s, key %s", source.ConfigMapKeyRef.Name, source.ConfigMapKeyRef.Key)
	case source.FieldRef != nil:
		return source.FieldRef.FieldPath
	case source.ResourceFieldRef != nil:
		return source.ResourceFieldRef.Resource
	}
	return "elsewhere"
}

// mountTexts are the paths of a container with their sources, such as "/models from claim models, read only".
func mountTexts(pod *corev1.PodSpec, container *corev1.Container) []string {
	var out []string
	for _, mount := range container.VolumeMounts {
		text := mount.MountPath
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if i >= 0 {
			text += volumeSource(&pod.Volumes[i])
		}
		if mount.ReadOnly {
			text += ", read only"
		}
		out = append(out, text)
	}
	return out
}

func volumeSource(volume *corev1.Volume) string {
	switch {
	case volume.HostPath != nil:
		return " from the node's " + volume.HostPath.Path
	case volume.PersistentVolumeClaim != nil:
		return " from claim " + volume.PersistentVolumeClaim.ClaimName
	case volume.EmptyDir != nil && volume.EmptyDir.Medium == corev1.StorageMediumMemory:
		return " in memory, " + cmp.Or(sizeLimitText(volume.EmptyDir), "without a limit of its own")
	}
	return ""
}

func sizeLimitText(source *corev1.EmptyDirVolumeSource) string {
	if source.SizeLimit == nil {
		return ""
	}
	return "at most " + source.SizeLimit.String()
}
