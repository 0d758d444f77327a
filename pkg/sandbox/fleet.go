package sandbox

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/safeyaml"
)

//go:embed assets/fleet.yaml
var defaultFleet []byte

// Fleet is the nodes of a cluster, by groups of equal ones.
type Fleet struct {
	// Region is every node's topology.kubernetes.io/region. Default: sandbox.
	Region string `json:"region,omitempty"`
	// Groups are the kinds of nodes.
	Groups []NodeGroup `json:"groups"`
}

// NodeGroup is a number of equal nodes, named NAMEPREFIX-01, NAMEPREFIX-02 and so on.
type NodeGroup struct {
	// NamePrefix is unique in the fleet.
	NamePrefix string `json:"namePrefix"`
	// Count is the number of nodes.
	Count int `json:"count"`
	// Pool is the nodes' pool. "" leaves the label out: the nodes are in pool default.
	Pool string `json:"pool,omitempty"`
	// GPUType is the model, such as A100-80G. Required with GPUs, forbidden without.
	GPUType string `json:"gpuType,omitempty"`
	// GPUsPerNode is the number of GPUs of each node. 0 is a node without.
	GPUsPerNode int `json:"gpusPerNode,omitempty"`
	// GPUMemory is the memory of each GPU. Required with GPUs, forbidden without.
	GPUMemory resource.Quantity `json:"gpuMemory,omitzero"`
	// Interconnect is nvlink or pcie. Required with GPUs, forbidden without.
	Interconnect string `json:"interconnect,omitempty"`
	// CPU is the cores of each node.
	CPU resource.Quantity `json:"cpu"`
	// Memory is the memory of each node.
	Memory resource.Quantity `json:"memory"`
	// Pods is the number of pods that fit on each node. Default: 110.
	Pods int `json:"pods,omitempty"`
	// NodesPerRack fills racks NAMEPREFIX-r1, NAMEPREFIX-r2 and so on. 0 means no rack.
	NodesPerRack int `json:"nodesPerRack,omitempty"`
	// Zone is the nodes' topology.kubernetes.io/zone. Default: REGION-a.
	Zone string `json:"zone,omitempty"`
	// Labels are added, and win over the ones derived from the fields above.
	Labels map[string]string `json:"labels,omitempty"`
	// Taints are the nodes' taints. Default: none.
	Taints []corev1.Taint `json:"taints,omitempty"`
}

// DefaultFleet is 64 nodes in 4 pools with 5 GPU types.
func DefaultFleet() Fleet {
	fleet, err := ParseFleet(defaultFleet)
	if err != nil {
		panic(fmt.Sprintf("the embedded fleet is invalid: %v", err)) //nolint:forbidigo // a test parses it, so no user can meet this
	}
	return fleet
}

// ParseFleet reads a fleet from YAML. Unknown fields are errors; so are all invalid values, each with its path.
func ParseFleet(data []byte) (Fleet, error) {
	var fleet Fleet
	if err := safeyaml.UnmarshalStrict(data, &fleet, safeyaml.Configuration); err != nil {
		return Fleet{}, fmt.Errorf("parsing the fleet: %w", err)
	}
	fleet = fleet.withDefaults()
	if err := fleet.validate().ToAggregate(); err != nil {
		return Fleet{}, fmt.Errorf("checking the fleet: %w", err)
	}
	return fleet, nil
}

func (f Fleet) withDefaults() Fleet {
	if f.Region == "" {
		f.Region = "sandbox"
	}
	f.Groups = slices.Clone(f.Groups)
	for i := range f.Groups {
		if f.Groups[i].Pods == 0 {
			f.Groups[i].Pods = 110
		}
		if f.Groups[i].Zone == "" {
			f.Groups[i].Zone = f.Region + "-a"
		}
	}
	return f
}

// Len returns the number of nodes.
func (f Fleet) Len() int {
	total := 0
	for _, group := range f.Groups {
		total += group.Count
	}
	return total
}

// Scale returns the fleet with n nodes in all, in the same proportions as far as whole nodes allow (by largest
// remainders). Every group keeps at least one node.
func (f Fleet) Scale(n int) (Fleet, error) {
	total := f.Len()
	if total == 0 {
		return Fleet{}, errors.New("scaling the fleet: it has no nodes")
	}
	if n < len(f.Groups) {
		return Fleet{}, fmt.Errorf("scaling the fleet to %d nodes: it has %d groups, and each needs a node", n, len(f.Groups))
	}
	scaled := f
	scaled.Groups = slices.Clone(f.Groups)
	remainders := make([]int, len(f.Groups))
	rest := n
	for i, group := range f.Groups {
		scaled.Groups[i].Count = max(1, group.Count*n/total)
		remainders[i] = group.Count * n % total
		rest -= scaled.Groups[i].Count
	}
	distributeRemainder(scaled.Groups, remainders, rest)
	return scaled, nil
}

// distributeRemainder adds rest nodes, one each, to the groups of the largest remainders. A negative rest, which groups
// of less than a node cause, is taken from the largest groups.
func distributeRemainder(groups []NodeGroup, remainders []int, rest int) {
	order := make([]int, len(groups))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return remainders[b] - remainders[a] })
	for _, i := range order[:max(0, min(rest, len(order)))] {
		groups[i].Count++
	}
	for ; rest < 0; rest++ {
		largest := slices.MaxFunc(order, func(a, b int) int { return groups[a].Count - groups[b].Count })
		groups[largest].Count--
	}
}

func (f Fleet) validate() field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("groups")
	if len(f.Groups) == 0 {
		errs = append(errs, field.Required(path, "a fleet has at least one group"))
	}
	names := map[string]bool{}
	for i, group := range f.Groups {
		errs = append(errs, group.validate(path.Index(i))...)
		if names[group.NamePrefix] {
			errs = append(errs, field.Duplicate(path.Index(i).Child("namePrefix"), group.NamePrefix))
		}
		names[group.NamePrefix] = true
	}
	return errs
}

func (g NodeGroup) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsDNS1123Label(g.NamePrefix) {
		errs = append(errs, field.Invalid(path.Child("namePrefix"), g.NamePrefix, msg))
	}
	for name, value := range map[string]string{"pool": g.Pool, "gpuType": g.GPUType, "zone": g.Zone} {
		for _, msg := range validation.IsValidLabelValue(value) {
			errs = append(errs, field.Invalid(path.Child(name), value, msg))
		}
	}
	for name, value := range map[string]int{"gpusPerNode": g.GPUsPerNode, "nodesPerRack": g.NodesPerRack} {
		if value < 0 {
			errs = append(errs, field.Invalid(path.Child(name), value, "must not be negative"))
		}
	}
	for name, value := range map[string]int{"count": g.Count, "pods": g.Pods} {
		if value < 1 {
			errs = append(errs, field.Invalid(path.Child(name), value, "must be at least 1"))
		}
	}
	for name, value := range map[string]resource.Quantity{"cpu": g.CPU, "memory": g.Memory} {
		if value.Sign() <= 0 {
			errs = append(errs, field.Invalid(path.Child(name), value.String(), "must be more than 0"))
		}
	}
	return append(errs, g.validateGPUs(path)...)
}

// validateGPUs checks the fields that GPUs require, and that only GPUs have.
func (g NodeGroup) validateGPUs(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	set := map[string]bool{"gpuType": g.GPUType != "", "gpuMemory": g.GPUMemory.Sign() > 0, "interconnect": g.Interconnect != ""}
	for _, name := range []string{"gpuType", "gpuMemory", "interconnect"} {
		switch {
		case g.GPUsPerNode > 0 && !set[name]:
			errs = append(errs, field.Required(path.Child(name), "the nodes have GPUs"))
		case g.GPUsPerNode == 0 && set[name]:
			errs = append(errs, field.Forbidden(path.Child(name), "the nodes have no GPUs: set gpusPerNode"))
		}
	}
	known := []string{g8s.InterconnectNVLink, g8s.InterconnectPCIe}
	if g.Interconnect != "" && !slices.Contains(known, g.Interconnect) {
		errs = append(errs, field.NotSupported(path.Child("interconnect"), g.Interconnect, known))
	}
	return errs
}
