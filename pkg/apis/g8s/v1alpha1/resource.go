package v1alpha1

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// IsGPU reports whether a resource is GPUs: whole ones, slots on shared ones, or MIG slices.
func IsGPU(name corev1.ResourceName) bool {
	return name == ResourceGPU || name == ResourceSharedGPU || strings.HasPrefix(string(name), ResourceMIGPrefix)
}
