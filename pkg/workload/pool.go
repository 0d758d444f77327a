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
	// Constraints are the requirements for its nodes, and for the pool to be available.
	Constraints names.PoolConstraints
	// Access says who may use it.
	Access names.PoolAccess
	// IdleTimeout is the default for its jobs; nil is for ever.
	IdleTimeout *time.Duration
	// MinRuntime is the default for its jobs; nil is none. MaxMinRuntime is the maximum for a job; nil is MinRuntime.
	MinRuntime, MaxMinRuntime *time.Duration
	// CheckpointGrace is the default for its jobs; nil is none. MaxCheckpointGrace is the maximum for a job; nil is the usual maximum.
	CheckpointGrace, MaxCheckpointGrace *time.Duration
	// GPUShare is the default memory per GPU for its jobs; nil is whole GPUs.
	GPUShare *resource.Quantity
}

// PoolNode is a node of a pool.
type PoolNode struct {
	Name string
	// GPUType is the GPU model for the node's label; empty does not change the label.
	GPUType string
}
