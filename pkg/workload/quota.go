package workload

import (
	"k8s.io/apimachinery/pkg/api/resource"
)

// Quota bounds what the jobs of namespaces may reserve together.
type Quota struct {
	Name        string
	Description string
	Namespaces  []NamespaceQuota
}

// NamespaceQuota is the quota of one namespace. Nil amounts are not bounded.
type NamespaceQuota struct {
	Namespace string
	// GPU is the number of whole GPUs.
	GPU *int64
	// SharedGPU is the number of slots on shared GPUs; after parsing it is GPU if the document has no value.
	SharedGPU *int64
	// MIG are numbers of MIG slices, by profile.
	MIG    []MIGSlices
	CPU    *resource.Quantity
	Memory *resource.Quantity
	// Storage is the size of all claims together.
	Storage *resource.Quantity
	Pods    *int64
}
