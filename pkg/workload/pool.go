package workload

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Pool is a named set of nodes.
type Pool struct {
	Name        string
	Description string
	Nodes       []PoolNode
	// Constraints are what its nodes must be like, and what it must have.
	Constraints names.PoolConstraints
	// Access says who may use it.
	Access names.PoolAccess
	// IdleTimeout is what its jobs get that do not say otherwise; nil is for ever.
	IdleTimeout *time.Duration
	// MinRuntime is what its jobs get that do not say otherwise; nil is none. MaxMinRuntime is the longest that one gets; nil is
	// MinRuntime.
	MinRuntime, MaxMinRuntime *time.Duration
	// CheckpointGrace is what its jobs get that do not say otherwise; nil is none. MaxCheckpointGrace is the longest that one
	// gets; nil is what is usual.
	CheckpointGrace, MaxCheckpointGrace *time.Duration
	// GPUShare is the memory that its jobs get of each GPU that do not say it; nil is whole GPUs.
	GPUShare *resource.Quantity
}

// PoolNode is a node of a pool.
type PoolNode struct {
	Name string
	// GPUType is the model to label the node with; empty leaves the node's label as it is.
	GPUType string
}
