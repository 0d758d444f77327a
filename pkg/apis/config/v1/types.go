package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GPUFilterArgs are the arguments of the plugin GPUFilter.
//
// +kubebuilder:object:root=true
type GPUFilterArgs struct {
	metav1.TypeMeta `json:",inline"`

	// GPUTypes limits pods that ask for GPUs to nodes of these types. A node's type is the first of its
	// labels g8s.host/gpu-type, accelerator, nvidia.com/gpu.product and those of clouds. Each entry is a label value of at
	// least one character, and appears once. Defaults to empty, which admits every type.
	// +listType=set
	// +optional
	GPUTypes []string `json:"gpuTypes,omitempty"`

	// PromiseHorizon is how far ahead the start may lie that is promised to the first job in line. Until then its
	// nodes are kept from pods that come after it and are not gone by then. 0s promises nothing. Defaults to 24h.
	// +optional
	PromiseHorizon *metav1.Duration `json:"promiseHorizon,omitempty"`

	// PromiseLedger is the address of the ledger that says how long jobs have run, such as
	// https://gpu-ledger.kube-system.svc. Starts are then promised, too, by how long those are expected to run that
	// have no deadline. It is asked with the scheduler's own credentials. Defaults to none: deadlines alone count.
	// +optional
	PromiseLedger string `json:"promiseLedger,omitempty"`

	// PromiseLedgerCA is a file with the certificate that the ledger's is signed by. Defaults to those of the system.
	// +optional
	PromiseLedgerCA string `json:"promiseLedgerCA,omitempty"`
}

// GPUScoreArgs are the arguments of the plugin GPUScore.
//
// +kubebuilder:object:root=true
type GPUScoreArgs struct {
	metav1.TypeMeta `json:",inline"`

	// Weights say how much each part of a node's score counts.
	// +optional
	Weights *GPUScoreWeights `json:"weights,omitempty"`

	// Strategy is how the part "utilization" values a node, for pods of no type in StrategyByJobType:
	// LeastFragmentation, Pack, Spread, TargetBand, SpreadReplicas or FillHoles. Defaults to LeastFragmentation.
	// +optional
	Strategy Strategy `json:"strategy,omitempty"`

	// StrategyByJobType is the strategy for pods by their label g8s.host/job-type. Each type appears once.
	// Defaults to training: LeastFragmentation, inference: SpreadReplicas, notebook: FillHoles. A list that
	// is given replaces all of it; with an empty one, Strategy holds for every pod.
	// +listType=map
	// +listMapKey=jobType
	// +optional
	StrategyByJobType []JobTypeStrategy `json:"strategyByJobType"` // written when empty, which means another thing than absent

	// TargetBand is the share of busy GPUs at which the strategy TargetBand gives the full score.
	// The other strategies ignore it.
	// +optional
	TargetBand *TargetBand `json:"targetBand,omitempty"`

	// KeepWholePerMille is how many nodes the strategy LeastFragmentation keeps whole, in a thousand of those of a pool that
	// the largest pods expected there would take as a whole, rounded down. While no more than that are idle, pods that ask
	// for less do not get them. It counts once pods leave about as fast as they come, and not for pods that may preempt. 0
	// keeps none. 0–100. Defaults to 4.
	// +optional
	KeepWholePerMille *int32 `json:"keepWholePerMille,omitempty"`

	// CompatibleTypes lists, for types that pods only wish for, which other types come near.
	// Each type appears once. Defaults to empty.
	// +listType=map
	// +listMapKey=type
	// +optional
	CompatibleTypes []CompatibleTypes `json:"compatibleTypes,omitempty"`

	// PolicyFile is the absolute path of a file that holds all the other arguments, and is watched: see
	// [ParseScorePolicy]. It replaces them as a whole; they hold until it can be read. Defaults to none.
	// +optional
	PolicyFile string `json:"policyFile,omitempty"`
}

// Types of job, the values of the label g8s.host/job-type.
const (
	JobTypeTraining  = "training"
	JobTypeInference = "inference"
	JobTypeNotebook  = "notebook"
	JobTypeCompute   = "compute"
)

// JobTypeStrategy is the strategy for one type of job.
type JobTypeStrategy struct {
	// JobType is training, inference, notebook or compute. Required.
	JobType string `json:"jobType"`

	// Strategy is one of those of GPUScoreArgs. Required.
	Strategy Strategy `json:"strategy"`
}

// GPUScoreWeights weigh the parts of a score against each other. Only their proportion matters: the sum is
// scaled to 0–100. At least one must be positive.
type GPUScoreWeights struct {
	// Utilization weighs how well a node's GPUs are filled, by the strategy. 0–100. Defaults to 40.
	// +optional
	Utilization *int32 `json:"utilization,omitempty"`

	// TypeMatch weighs how near a node's GPU type is to what the pod prefers. 0–100. Defaults to 30.
	// +optional
	TypeMatch *int32 `json:"typeMatch,omitempty"`

	// Topology weighs how well the node's interconnect suits the number of GPUs. 0–100. Defaults to 30.
	// +optional
	Topology *int32 `json:"topology,omitempty"`
}

// Strategy is how utilization is valued.
type Strategy string

const (
	// Pack prefers the node that the pod fills most, so that whole nodes stay free.
	Pack Strategy = "Pack"
	// Spread prefers the node that the pod fills least.
	Spread Strategy = "Spread"
	// TargetBandStrategy prefers nodes that the pod fills to a [TargetBand], and falls off on both sides.
	TargetBandStrategy Strategy = "TargetBand"
	// SpreadReplicas prefers the failure domain, then the node, with the fewest replicas of the pod's job, and
	// among those packs.
	SpreadReplicas Strategy = "SpreadReplicas"
	// LeastFragmentation prefers the node on which the pod wastes least of what the pods to be expected could use:
	// rests of shared GPUs, GPUs without CPU and memory beside them, types that others insist on, whole nodes. Where
	// GPUs are only counted, it is Pack.
	LeastFragmentation Strategy = "LeastFragmentation"
	// FillHoles prefers GPUs that larger jobs cannot use together, and among nodes that have some, packs.
	FillHoles Strategy = "FillHoles"
)

// TargetBand is a range of utilization in percent of a node's GPUs, the pod's own included.
type TargetBand struct {
	// Low is where the band begins. 0–100, at most High. Defaults to 60.
	// +optional
	Low *int32 `json:"low,omitempty"`

	// High is where the band ends. 0–100. Defaults to 80.
	// +optional
	High *int32 `json:"high,omitempty"`
}

// CompatibleTypes lists the GPU types that stand in for one that a pod wishes for.
type CompatibleTypes struct {
	// Type is the GPU type that a pod wishes for. Required.
	Type string `json:"type"`

	// Accepts are the types that come near it. At least one.
	// +listType=set
	Accepts []string `json:"accepts"`
}
