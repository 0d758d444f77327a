package workload

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Resources is what each pod of a job requests. Nil quantities are not requested.
type Resources struct {
	// Preset names the preset that fills missing fields; "" for none. Package jobplan fills it in.
	Preset string
	// Pool is the pool to run in, [names.DefaultPool] if the document names none.
	Pool string
	// Nodes is the number of nodes that the job runs on at once, at least 1. It has one pod on each.
	Nodes int32
	// Topology says how close together the nodes of a job are placed; nil leaves it to the scheduler.
	Topology *Topology
	// GPU is the number of GPUs of each pod.
	GPU int64
	// GPUTypes are the acceptable GPU models, the preferred one first. Empty accepts all.
	GPUTypes []string
	// GPUTypesListed says that the types are written as a list, even of one. The scheduler then matches all labels that name a type.
	GPUTypesListed bool
	// GPUShare is the memory requested on each of the GPUs, in pools that share them.
	GPUShare *resource.Quantity
	// WholeGPUs says that the job requests whole GPUs, whatever its pool's default share is.
	WholeGPUs bool
	// MIG are slices of GPUs, in place of whole ones.
	MIG    []MIGSlices
	CPU    *resource.Quantity
	Memory *resource.Quantity
	// SHM is the size of /dev/shm. Nil leaves it to the renderer; zero requests none.
	SHM         *resource.Quantity
	Tolerations []corev1.Toleration
	// TimeLimit is how long a training job may run; for an array, each run of a task. Nil is no limit.
	TimeLimit *time.Duration
	// MinRuntime is how long after its start a pod may not be preempted; nil leaves it to the pool.
	MinRuntime *time.Duration
	// CheckpointGrace is how long the job has to save its work before preemption; nil leaves it to the pool.
	CheckpointGrace *time.Duration
	// IdleTimeout is how long the GPUs may be idle until the job is paused; nil is for ever.
	IdleTimeout *time.Duration
}

// AsksGPUs reports whether a pod gets GPUs, or slices of them.
func (r *Resources) AsksGPUs() bool { return r.GPU > 0 || len(r.MIG) > 0 }

// TopologyMode says how important the proximity of a job's nodes is.
type TopologyMode string

const (
	// TopologyPreferred takes the closest available nodes.
	TopologyPreferred TopologyMode = names.TopologyPreferred
	// TopologyRequired waits until one domain has room for all.
	TopologyRequired TopologyMode = names.TopologyRequired
)

// Topology is the requested placement of a job's nodes in the cluster's fabric.
type Topology struct {
	// Level is the kind of domain: zone, rack, nvlink, or the key of a node label.
	Level string
	Mode  TopologyMode
	// Segment is the number of nodes per domain; 0 places all of them in one domain.
	Segment int32
	// Wait is how long a job that prefers one domain waits for it; nil takes the next best nodes at once.
	Wait *time.Duration
}

// MaxTopologyWait is the maximum wait for a domain.
const MaxTopologyWait = 24 * time.Hour
