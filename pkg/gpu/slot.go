package gpu

import (
	"cmp"
	"errors"
	"regexp"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Slot is a unit of [names.ResourceGPU] on a node whose device plugin offers parts of GPUs under the name of whole ones: NVIDIA's, with replicas
// (time-slicing or MPS), or with the MIG strategy single. The zero value is a whole GPU.
//
// Kubelet does not report which parts belong to one GPU. So a slot counts on its part of the memory, and a pod gets one slot: two could be of the
// same GPU, and would not be two GPUs.
type Slot struct {
	// Sharing is what divides the GPUs: time-slicing, mps, or mig with the profile.
	Sharing string
	// Replicas is how many slots share a GPU, or a MIG slice; 0 and 1 are one.
	Replicas int64
	// Sevenths is how many of the seven parts of a GPU a MIG slice has; 0 is all of a GPU.
	Sevenths int64
}

// Slot strategies, as NVIDIA's labels spell them.
const (
	sharingNone     = "none"
	sharingReplicas = "replicas" // of a version that does not say by what
	migSingle       = "single"
	sevenths        = 7
	maxReplicas     = 1 << 20
)

// IsWhole reports whether each unit is a whole GPU.
func (s Slot) IsWhole() bool { return s == Slot{} }

// MilliGPUs returns the size of a slot in thousandths of a GPU.
func (s Slot) MilliGPUs() int64 {
	return MilliPerGPU * cmp.Or(s.Sevenths, sevenths) / sevenths / s.perDevice()
}

// GPUsForSlots returns the number of GPUs behind some slots, rounded up.
func (s Slot) GPUsForSlots(slots int64) int64 {
	perCard := s.perDevice() * sevenths
	return (slots*cmp.Or(s.Sevenths, sevenths) + perCard - 1) / perCard
}

// WholeGPUs returns the number of GPUs behind some slots, rounded down.
func (s Slot) WholeGPUs(slots int64) int64 {
	return slots * cmp.Or(s.Sevenths, sevenths) / (s.perDevice() * sevenths)
}

// perDevice returns how many slots share the device whose memory the label gives.
func (s Slot) perDevice() int64 { return max(s.Replicas, 1) }

// migProduct is the product of a node with the MIG strategy single: NVIDIA-A100-SXM4-80GB-MIG-1g.10gb, with -SHARED where slices
// have replicas.
var migProduct = regexp.MustCompile(`-MIG-(([1-7])g\.[0-9]+gb)`)

// parseSlot reads from a node's labels what its units are. Labels of a version that does not know the strategy only have replicas.
func parseSlot(node *corev1.Node) (Slot, error) {
	slot := Slot{}
	var replicas int64
	var err error
	if node.Labels[names.LabelNVIDIAReplicas] != "0" { // where there is nothing to share
		replicas, err = firstNumber(node, maxReplicas, names.LabelNVIDIAReplicas)
	}
	if strategy := cmp.Or(node.Labels[names.LabelNVIDIASharing], sharingReplicas); replicas > 1 && strategy != sharingNone {
		slot.Sharing, slot.Replicas = strategy, replicas
	}
	if profile := migProduct.FindStringSubmatch(node.Labels[names.LabelNVIDIAProduct]); profile != nil && node.Labels[names.LabelNVIDIAMIGStrategy] == migSingle {
		parts, parseErr := strconv.ParseInt(profile[2], 10, 64)
		slot.Sharing, slot.Sevenths, err = "mig "+profile[1], parts, errors.Join(err, parseErr)
	}
	return slot, err
}
