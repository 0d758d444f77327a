package server

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// DeclaredPool is the content of a pool's GPUPool.
type DeclaredPool struct {
	Constraints        PoolConstraints `json:"constraints" doc:"What each node must be like"`
	Access             *PoolAccess     `json:"access,omitempty" doc:"Who may use the pool; left out, everybody"`
	IdleTimeout        string          `json:"idleTimeout,omitempty" doc:"For how long the GPUs of its jobs may do nothing until they are paused, where they do not say it themselves"`
	MinRuntime         string          `json:"minRuntime,omitempty" doc:"For how long after their start its pods are not preempted, where they do not say it themselves"`
	MaxMinRuntime      string          `json:"maxMinRuntime,omitempty" doc:"The longest that this is for any pod; left out, minRuntime"`
	CheckpointGrace    string          `json:"checkpointGrace,omitempty" doc:"How long its pods have to save their work before they are preempted, where they do not say it themselves"`
	MaxCheckpointGrace string          `json:"maxCheckpointGrace,omitempty" doc:"The longest that this is for any pod; left out, 5m or checkpointGrace"`
	GPUShare           string          `json:"gpuShare,omitempty" doc:"The memory that its jobs get of each GPU that they ask for, where they do not say it themselves"`
	Stale              bool            `json:"stale,omitempty" doc:"What follows is of an earlier version of the constraints: gpu-controller has not come to it yet"`
	HealthyNodes       int32           `json:"healthyNodes"`
	FreeSets           []FreeSet       `json:"freeSets" doc:"How many pods of so many GPUs could start, one node at a time"`
	PendingJobs        int32           `json:"pendingJobs"`
	PendingGPUs        int64           `json:"pendingGpus"`
	PendingSince       *time.Time      `json:"pendingSince,omitempty"`
	Advice             *PoolAdvice     `json:"advice,omitempty" doc:"What would start the jobs that wait"`
	Conditions         []PoolCondition `json:"conditions"`
	StatusWritten      bool            `json:"statusWritten" doc:"Whether gpu-controller has ever written the status"`
}

// PoolConstraints are the requirements for the nodes of a pool and for the pool.
type PoolConstraints struct {
	GPUTypes        []string `json:"gpuTypes,omitempty" maxItems:"32"`
	MinGPUs         *int32   `json:"minGpus,omitempty" minimum:"0" maximum:"1024" doc:"Of each node"`
	MinGPUMemory    string   `json:"minGpuMemory,omitempty" maxLength:"32" doc:"Of each GPU" example:"80Gi"`
	MinCPU          string   `json:"minCpu,omitempty" maxLength:"32" doc:"Of each node"`
	MinMemory       string   `json:"minMemory,omitempty" maxLength:"32" doc:"Of each node"`
	Regions         []string `json:"regions,omitempty" maxItems:"64"`
	Zones           []string `json:"zones,omitempty" maxItems:"64"`
	MinHealthyNodes *int32   `json:"minHealthyNodes,omitempty" minimum:"0" maximum:"100000"`
	MinZones        *int32   `json:"minZones,omitempty" minimum:"0" maximum:"64"`
}

// PoolAccess says which pods may use a pool. Policies of the cluster enforce it.
type PoolAccess struct {
	Namespaces []string `json:"namespaces,omitempty" maxItems:"256" doc:"Whose pods may use the pool; none is all"`
	Priorities []string `json:"priorities,omitempty" maxItems:"3" doc:"Those that pods of the pool may have, high, medium or low; none is any" example:"[\"high\"]"`
}

// FreeSet counts the free sets of a number of GPUs, each on one node.
type FreeSet struct {
	Size  int32 `json:"size"`
	Count int64 `json:"count"`
}

// PoolAdvice says how many more nodes would start the waiting jobs.
type PoolAdvice struct {
	Text     string             `json:"text"`
	Template string             `json:"template,omitempty" doc:"The node that the new ones would be like"`
	Options  []PoolAdviceOption `json:"options,omitempty" doc:"The fewest nodes first"`
	AsOf     time.Time          `json:"asOf"`
}

// PoolAdviceOption is what a number of new nodes would start.
type PoolAdviceOption struct {
	Nodes int32 `json:"nodes"`
	Jobs  int32 `json:"jobs"`
}

// PoolCondition is a condition of a GPUPool.
type PoolCondition struct {
	Type    string    `json:"type" example:"Available"`
	Status  string    `json:"status" enum:"True,False,Unknown"`
	Reason  string    `json:"reason"`
	Message string    `json:"message"`
	Since   time.Time `json:"since"`
}

// declaredPool converts a GPUPool to its API form; nil if there is none.
func declaredPool(d *inventory.Declared) *DeclaredPool {
	if d == nil {
		return nil
	}
	out := &DeclaredPool{
		Constraints: poolConstraints(d.Spec.Constraints), Stale: d.IsStale(), HealthyNodes: d.Status.HealthyNodes,
		FreeSets: []FreeSet{}, PendingJobs: d.Status.Pending.Jobs, PendingGPUs: d.Status.Pending.GPUs, Conditions: []PoolCondition{},
		StatusWritten: len(d.Status.Conditions) > 0,
	}
	if access := d.Spec.Access; len(access.Namespaces)+len(access.Priorities) > 0 {
		out.Access = &PoolAccess{Namespaces: access.Namespaces}
		for _, priority := range access.Priorities {
			out.Access.Priorities = append(out.Access.Priorities, string(priority))
		}
	}
	out.IdleTimeout, out.MinRuntime, out.MaxMinRuntime = d.Spec.Defaults.IdleTimeout, d.Spec.Defaults.MinRuntime, d.Spec.Defaults.MaxMinRuntime
	out.CheckpointGrace, out.MaxCheckpointGrace = d.Spec.Defaults.CheckpointGrace, d.Spec.Defaults.MaxCheckpointGrace
	out.GPUShare = d.Spec.Defaults.GPUShare
	for _, set := range d.Status.FreeSets {
		out.FreeSets = append(out.FreeSets, FreeSet(set))
	}
	if since := d.Status.Pending.Since; since != nil {
		out.PendingSince = &since.Time
	}
	if advice := d.Status.Advice; advice != nil {
		out.Advice = &PoolAdvice{Text: advice.Text, Template: advice.Template, AsOf: advice.AsOf.Time}
		for _, option := range advice.Options {
			out.Advice.Options = append(out.Advice.Options, PoolAdviceOption(option))
		}
	}
	for _, c := range d.Status.Conditions {
		out.Conditions = append(out.Conditions, PoolCondition{
			Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time,
		})
	}
	return out
}

func poolConstraints(c names.PoolConstraints) PoolConstraints {
	return PoolConstraints{
		GPUTypes: c.GPUTypes, MinGPUs: c.MinNode.GPUs, MinGPUMemory: formatQuantity(c.MinNode.GPUMemory), MinCPU: formatQuantity(c.MinNode.CPU),
		MinMemory: formatQuantity(c.MinNode.Memory), Regions: c.Regions, Zones: c.Zones, MinHealthyNodes: c.MinHealthyNodes, MinZones: c.MinZones,
	}
}

// parseConstraints converts the constraints of a request.
func (c *PoolConstraints) parseConstraints() (names.PoolConstraints, error) {
	out := names.PoolConstraints{
		GPUTypes: c.GPUTypes, Regions: c.Regions, Zones: c.Zones, MinHealthyNodes: c.MinHealthyNodes, MinZones: c.MinZones,
		MinNode: names.NodeMinimum{GPUs: c.MinGPUs},
	}
	for field, at := range map[string]struct {
		text string
		to   **resource.Quantity
	}{
		"minGpuMemory": {c.MinGPUMemory, &out.MinNode.GPUMemory}, "minCpu": {c.MinCPU, &out.MinNode.CPU}, "minMemory": {c.MinMemory, &out.MinNode.Memory},
	} {
		if at.text == "" {
			continue
		}
		quantity, err := resource.ParseQuantity(at.text)
		if err != nil || quantity.Sign() < 0 {
			return names.PoolConstraints{}, invalidErrorf("constraints.%s is %q, want an amount such as 64 or 512Gi", field, at.text)
		}
		*at.to = &quantity
	}
	return out, nil
}

// parseAccess converts the access rules of a request.
func (a *PoolAccess) parseAccess() (names.PoolAccess, error) {
	out := names.PoolAccess{Namespaces: slices.Compact(slices.Sorted(slices.Values(a.Namespaces)))}
	for _, namespace := range out.Namespaces {
		if len(validation.IsDNS1123Label(namespace)) > 0 {
			return names.PoolAccess{}, invalidErrorf("access.namespaces: %.70q is no name of a namespace", namespace)
		}
	}
	for _, priority := range slices.Compact(slices.Sorted(slices.Values(a.Priorities))) {
		if !slices.Contains([]workload.Priority{workload.PriorityHigh, workload.PriorityMedium, workload.PriorityLow}, workload.Priority(priority)) {
			return names.PoolAccess{}, invalidErrorf("access.priorities: %.70q is not high, medium or low", priority)
		}
		out.Priorities = append(out.Priorities, names.PoolPriority(priority))
	}
	return out, nil
}

func formatQuantity(quantity *resource.Quantity) string {
	if quantity == nil {
		return ""
	}
	return quantity.String()
}
