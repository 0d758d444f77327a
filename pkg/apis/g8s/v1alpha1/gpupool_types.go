package v1alpha1

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GPUPool says what the nodes of a pool must be like, and tells how the pool is. It is optional: the nodes of a pool are
// those with its name in the label g8s.host/pool, whether there is a GPUPool of that name or not.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=g8s
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="the name must be a value of the label g8s.host/pool: 63 characters at most"
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Healthy",type=integer,JSONPath=`.status.healthyNodes`
// +kubebuilder:printcolumn:name="GPUs",type=integer,JSONPath=`.status.gpus.total`
// +kubebuilder:printcolumn:name="Free",type=integer,JSONPath=`.status.gpus.free`
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.pending.gpus`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Advice",type=string,JSONPath=`.status.advice.text`
type GPUPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec GPUPoolSpec `json:"spec,omitempty"`
	// +optional
	Status GPUPoolStatus `json:"status,omitempty"`
}

// GPUPoolList is a list of pools.
//
// +kubebuilder:object:root=true
type GPUPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []GPUPool `json:"items"`
}

// GPUPoolSpec is what an administrator wants of a pool.
type GPUPoolSpec struct {
	// Description is for people.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`
	// Constraints are what each node must be like, and what the pool must have. A node that breaks one gets no pods.
	//
	// +optional
	Constraints PoolConstraints `json:"constraints,omitzero"`
	// Access says who may use the pool. The policy g8s-pool-access holds pods, and what makes them, to it.
	//
	// +optional
	Access PoolAccess `json:"access,omitzero"`
	// Defaults are for jobs of the pool that do not say otherwise.
	//
	// +optional
	Defaults PoolDefaults `json:"defaults,omitzero"`
}

// PoolDefaults are for jobs of a pool that do not say otherwise.
type PoolDefaults struct {
	// IdleTimeout is for how long the GPUs of a job may do nothing until it is paused: of training jobs, notebooks and
	// computations, and never of services. 10m to 72h. Without it jobs are paused only if they ask for it.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^([0-9]+[hms])+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10m') && duration(self) <= duration('72h')",message="must be from 10m to 72h"
	IdleTimeout string `json:"idleTimeout,omitempty"`
	// MinRuntime is for how long after its start a pod may not be preempted that does not say it itself, by the annotation
	// g8s.host/min-runtime. 0s to 168h.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^([0-9]+[hms])+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('168h')",message="must be at most 168h"
	MinRuntime string `json:"minRuntime,omitempty"`
	// MaxMinRuntime cuts what is longer, whoever says it. 0s to 168h; what minRuntime says if it is not given, and 0s protects no pod.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^([0-9]+[hms])+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('168h')",message="must be at most 168h"
	MaxMinRuntime string `json:"maxMinRuntime,omitempty"`
	// CheckpointGrace is how long a pod has to save its work before it is preempted that does not say it itself, by the
	// annotation g8s.host/checkpoint-grace. 0s to 1h.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^([0-9]+[hms])+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('1h')",message="must be at most 1h"
	CheckpointGrace string `json:"checkpointGrace,omitempty"`
	// MaxCheckpointGrace cuts what is longer, whoever says it. 0s to 1h; 5m if it is not given, or checkpointGrace where that is
	// more, and 0s has every pod preempted at once.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^([0-9]+[hms])+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('1h')",message="must be at most 1h"
	MaxCheckpointGrace string `json:"maxCheckpointGrace,omitempty"`
	// GPUShare is the memory, such as 8Gi, that jobs get of each GPU that they ask for, in a pool whose nodes share their GPUs, where
	// they do not say it themselves. gpuctl and its server fill it into jobs as they are submitted; pods that others make get
	// what they ask for.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]*(Mi|Gi|Ti|M|G|T)$`
	GPUShare string `json:"gpuShare,omitempty"`
}

// IdleAfter is the idle timeout, 0 for none.
func (d *PoolDefaults) IdleAfter() time.Duration {
	timeout, err := time.ParseDuration(d.IdleTimeout)
	if err != nil {
		return 0
	}
	return timeout
}

// PoolAccess says who may use a pool. What is left out is not asked.
type PoolAccess struct {
	// Namespaces are those whose pods may use the pool; none is all.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Namespaces []string `json:"namespaces,omitempty"`
	// Priorities are those that pods of the pool may have; none is any.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=3
	Priorities []PoolPriority `json:"priorities,omitempty"`
}

// PoolPriority is a priority of jobs, as gpuctl's YAML calls it: g8s-high is high.
//
// +kubebuilder:validation:Enum=high;medium;low
type PoolPriority string

// PoolConstraints are what the nodes of a pool must be like, and what the pool must have. What is left out is not asked.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minZones) || !has(self.zones) || self.minZones <= size(self.zones)",message="minZones is more than there are zones"
type PoolConstraints struct {
	// GPUTypes are the types of GPU that nodes may have, such as A100-80G.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	GPUTypes []string `json:"gpuTypes,omitempty"`
	// MinNode is the least that each node must offer to pods.
	//
	// +optional
	MinNode NodeMinimum `json:"minNode,omitzero"`
	// Regions and Zones are where nodes may be, by the labels topology.kubernetes.io/region and /zone.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Regions []string `json:"regions,omitempty"`
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Zones []string `json:"zones,omitempty"`
	// MinHealthyNodes is the fewest nodes that must take pods for the pool to be available.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	MinHealthyNodes *int32 `json:"minHealthyNodes,omitempty"`
	// MinZones is in how many zones at least those nodes must be.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=64
	MinZones *int32 `json:"minZones,omitempty"`
}

// NodeMinimum is the least that a node must offer to pods.
type NodeMinimum struct {
	// GPUs is how many GPUs.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1024
	GPUs *int32 `json:"gpus,omitempty"`
	// GPUMemory is the memory of each GPU, such as 80Gi.
	//
	// +optional
	GPUMemory *resource.Quantity `json:"gpuMemory,omitempty"`
	// CPU is how many cores.
	//
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// Memory is how much memory, such as 512Gi.
	//
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// GPUPoolStatus is how a pool is. The controller writes it within seconds of a change.
type GPUPoolStatus struct {
	// ObservedGeneration is the generation of the spec that this follows from.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Nodes is how many nodes are in the pool, HealthyNodes how many of them are admitted and take new pods.
	//
	// +optional
	Nodes int32 `json:"nodes"`
	// +optional
	HealthyNodes int32 `json:"healthyNodes"`
	// GPUs are the whole GPUs of all nodes together, Types by their type.
	//
	// +optional
	GPUs GPUCounts `json:"gpus"`
	// +optional
	// +listType=map
	// +listMapKey=gpuType
	Types []GPUTypeStatus `json:"types,omitempty"`
	// FreeSets is how many pods of 8, 4, 2 GPUs and one GPU each could get, one node at a time: what the free GPUs are good for.
	//
	// +optional
	// +listType=map
	// +listMapKey=size
	FreeSets []FreeSet `json:"freeSets,omitempty"`
	// Pending is what waits for GPUs of the pool.
	//
	// +optional
	Pending PendingDemand `json:"pending"`
	// Advice is what would start what waits; none while nothing has waited for long.
	//
	// +optional
	Advice *CapacityAdvice `json:"advice,omitempty"`
	// Conditions are Available, whether the pool has the nodes that it must have, and NodesAdmitted, whether all its nodes are
	// as they must be.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GPUCounts are numbers of whole GPUs.
type GPUCounts struct {
	// Total is what nodes offer, Allocated what pods hold, Free what a new pod could get.
	Total     int64 `json:"total"`
	Allocated int64 `json:"allocated"`
	Free      int64 `json:"free"`
}

// GPUTypeStatus is the part of a pool that has one type of GPU; "" is for GPUs whose type nothing says.
type GPUTypeStatus struct {
	GPUType string    `json:"gpuType"`
	Nodes   int32     `json:"nodes"`
	GPUs    GPUCounts `json:"gpus"`
}

// FreeSet is how many sets of so many GPUs are free, each on one node.
type FreeSet struct {
	Size  int32 `json:"size"`
	Count int64 `json:"count"`
}

// PendingDemand is what waits for GPUs.
type PendingDemand struct {
	// Jobs is how many jobs wait, or pods that belong to none, and GPUs what they ask together.
	Jobs int32 `json:"jobs"`
	GPUs int64 `json:"gpus"`
	// Since is when the first of them began to wait.
	//
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// CapacityAdvice is how many more nodes would start what waits, found by trying with the scheduler's own code.
type CapacityAdvice struct {
	// Text is the advice in a sentence.
	Text string `json:"text"`
	// Template is the node of the pool that the new ones would be like.
	//
	// +optional
	Template string `json:"template,omitempty"`
	// Options are numbers of new nodes, and how many of the waiting jobs would start with them, the fewest nodes first.
	//
	// +optional
	// +listType=map
	// +listMapKey=nodes
	Options []CapacityOption `json:"options,omitempty"`
	// AsOf is when it was found.
	AsOf metav1.Time `json:"asOf"`
}

// CapacityOption is what a number of new nodes would start.
type CapacityOption struct {
	Nodes int32 `json:"nodes"`
	Jobs  int32 `json:"jobs"`
}

// The types of a GPUPool's conditions.
const (
	// ConditionAvailable says whether the pool has the nodes that it must have.
	ConditionAvailable = "Available"
	// ConditionNodesAdmitted says whether all nodes of the pool are as they must be.
	ConditionNodesAdmitted = "NodesAdmitted"
)

// TaintNotAdmitted keeps new pods, by the effect NoSchedule, from a node that breaks the constraints of its pool.
const TaintNotAdmitted = "g8s.host/not-admitted"
