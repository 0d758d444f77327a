// Package binding decides which GPUs a container gets, or why it must not start. It is pure: everything known of the node at one moment goes in as a
// value, and records of the holders come out.
//
// kubelet only counts. Its devices are slots that stand for no particular GPU, and with PreStartContainer it reports which slots the next container
// has. The scheduler's annotation on the pod names the GPUs. Any mismatch is refused, so that the container does not start: no container ever gets a
// GPU that was not meant for it.
package binding

import (
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/agent/checkpoint"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Situation is what is known of a node.
type Situation struct {
	// Claims are the containers that have slots, by kubelet's checkpoint: of all resources of the agent.
	Claims []checkpoint.Claim
	// Pods are those that the API server has bound to the node.
	Pods map[types.UID]Pod
	// Records are what the containers of the node hold. They were read before Live, so that the pod of a record which Live
	// does not have has ended.
	Records []Record
	// Live are the pods that the runtime has not ended, with their running containers. The runtime is authoritative here, and neither kubelet nor the
	// API server: a pod that was deleted by force is gone for both while its processes still use the GPUs.
	Live map[types.UID]map[string]bool
	// GPUs are the node's GPUs and slices, by UUID.
	GPUs map[string]GPU
	// Unassigned is the policy for pods without an assignment.
	Unassigned Policy
}

// Pod is the API server's view of a pod.
type Pod struct {
	Namespace, Name string
	// Assignment is the scheduler's annotation g8s.host/gpu-devices, "" for none.
	Assignment string
	// Decided is true if our scheduler placed the pod here, whether or not it chose devices.
	Decided bool
	// Deleting is true if the pod is terminating.
	Deleting bool
	// Static is true if kubelet runs the pod from a file. No scheduler has placed it.
	Static bool
}

// GPU is a GPU or a slice that can be allocated.
type GPU struct {
	// Resource is the resource that requests all of it.
	Resource string
	// Shared is the resource that requests a part of its memory, "" if it is not shared.
	Shared string
	// ParentUUID is the GPU that a slice is of, "" for a whole GPU.
	ParentUUID string
	// Index is the driver's number of the GPU, for people, and the order in which the agent allocates.
	Index int
	// MemoryMiB is all of its memory.
	MemoryMiB int64
	// Health is [gpu.Healthy], or one word for what is wrong.
	Health string
}

// Policy is the policy for pods that request whole GPUs or MIG slices and have no assignment. Slices of a pod that our scheduler placed here are
// chosen regardless of the policy: a scheduler older than the agent, or without data on the slices, only counts them.
type Policy string

const (
	// Refuse lets them not start.
	Refuse Policy = "refuse"
	// GiveFree gives them healthy GPUs that no pod holds and that the scheduler has assigned to no other pod.
	GiveFree Policy = "free"
)

// Record is which GPUs a container holds.
type Record struct {
	// Name is the CDI device that stands for the GPUs, less the kind.
	Name      string       `json:"name"`
	Pod       types.UID    `json:"pod"`
	Namespace string       `json:"namespace"`
	PodName   string       `json:"podName"`
	Container string       `json:"container"`
	Resource  string       `json:"resource"`
	Devices   []gpu.Device `json:"devices"`
	// All are the UUIDs of all devices of the container, of any resource, as in its environment.
	All []string `json:"all"`
}

// UUIDs returns the devices of a record.
func (r *Record) UUIDs() []string { return deviceUUIDs(r.Devices) }

func deviceUUIDs(devices []gpu.Device) []string {
	uuids := make([]string, len(devices))
	for i := range devices {
		uuids[i] = devices[i].UUID
	}
	return uuids
}

// EndedRecords returns the records whose pod the runtime no longer has.
func (s *Situation) EndedRecords() []Record {
	var ended []Record
	for i := range s.Records {
		if _, live := s.Live[s.Records[i].Pod]; !live {
			ended = append(ended, s.Records[i])
		}
	}
	return ended
}
