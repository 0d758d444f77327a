package workload

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Resources is what each pod of a job asks for. Nil quantities are not asked for.
type Resources struct {
	// Preset names what fills the fields that the document leaves out; "" for nothing. Filling it in is for package jobplan.
	Preset string
	// Pool is the pool of nodes to run in, [names.DefaultPool] if the document names none.
	Pool string
	// Nodes is the number of nodes that the job runs on at once, at least 1. It has a pod on each.
	Nodes int32
	// Topology says how the nodes of a job on several are to lie; nil leaves it to the scheduler.
	Topology *Topology
	// GPU is the number of GPUs of each pod.
	GPU int64
	// GPUTypes are the acceptable models of GPUs, the preferred one first. Empty accepts all.
	GPUTypes []string
	// GPUTypesListed says that the types are written as a list, also if it is of one. The scheduler then looks for
	// them in every label that names a type.
	GPUTypesListed bool
	// GPUShare is the memory asked on each of the GPUs, in pools that share them.
	GPUShare *resource.Quantity
	// WholeGPUs says that the job asks for whole GPUs, whatever its pool gives to those that do not say it.
	WholeGPUs bool
	// MIG are slices of GPUs, instead of whole ones.
	MIG    []MIGSlices
	CPU    *resource.Quantity
	Memory *resource.Quantity
	// SHM is the size of /dev/shm. Nil leaves it to the renderer; zero asks for none.
	SHM         *resource.Quantity
	Tolerations []corev1.Toleration
	// TimeLimit is how long a training job may run, of an array each run of a task; nil is no limit.
	TimeLimit *time.Duration
	// MinRuntime is for how long after its start a pod may not be preempted; nil leaves it to the pool.
	MinRuntime *time.Duration
	// CheckpointGrace is how long the job has to save its work before it is preempted; nil leaves it to the pool.
	CheckpointGrace *time.Duration
	// IdleTimeout is for how long the GPUs may do nothing until the job is paused; nil is for ever.
	IdleTimeout *time.Duration
}

// AsksGPUs says whether a pod gets GPUs, or slices of them.
func (r *Resources) AsksGPUs() bool { return r.GPU > 0 || len(r.MIG) > 0 }

// TopologyMode says how much it matters that the nodes of a job lie close together.
type TopologyMode string

const (
	// TopologyPreferred takes the nodes that lie closest, wherever that is.
	TopologyPreferred TopologyMode = names.TopologyPreferred
	// TopologyRequired waits until one domain has room for all.
	TopologyRequired TopologyMode = names.TopologyRequired
)

// Topology is how the nodes of a job lie in the fabric of the cluster.
type Topology struct {
	// Level is a kind of domain: zone, rack, nvlink, or the key of a label of nodes.
	Level string
	Mode  TopologyMode
	// Segment is how many nodes lie in one domain each; 0 has all of them in one.
	Segment int32
	// Wait is how long a job that prefers one domain holds out for it; nil takes the next best places at once.
	Wait *time.Duration
}

// MaxTopologyWait is the longest wait for a domain.
const MaxTopologyWait = 24 * time.Hour
