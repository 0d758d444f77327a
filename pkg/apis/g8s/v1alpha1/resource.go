package v1alpha1

import "strings"

// IsGPU reports whether a resource, by its name, is GPUs: whole ones, slots on shared ones, or MIG slices.
func IsGPU[Name ~string](name Name) bool {
	return name == ResourceGPU || name == ResourceSharedGPU || strings.HasPrefix(string(name), ResourceMIGPrefix)
}
